//! Keys by their addresses (OSSL_STORE).

use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use crate::libcrypto::{Context, Key};

impl Context {
    /// Loads the private key at an address.
    pub fn load(&self, address: &str) -> Option<Key<'_>> {
        let (lib, none) = (self.lib, null_mut());
        let address = CString::new(address).unwrap();
        let mut raw = null_mut::<c_void>();
        // SAFETY: a C string and a live context; what is made is given back.
        unsafe {
            let store = (lib.OSSL_STORE_open_ex)(
                address.as_ptr(),
                self.raw,
                null(),
                none,
                none,
                null(),
                none,
                none,
            );
            while !store.is_null() && raw.is_null() && (lib.OSSL_STORE_eof)(store) == 0 {
                let info = (lib.OSSL_STORE_load)(store);
                if !info.is_null() {
                    raw = (lib.OSSL_STORE_INFO_get1_PKEY)(info);
                    (lib.OSSL_STORE_INFO_free)(info);
                }
            }
            if !store.is_null() {
                (lib.OSSL_STORE_close)(store);
            }
        }
        (!raw.is_null()).then_some(Key { context: self, raw })
    }
}
