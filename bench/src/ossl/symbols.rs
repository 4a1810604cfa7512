//! The functions of libcrypto and libssl that the harness calls, resolved by name at run time.
//!
//! Signatures are those of the OpenSSL 3.5 manual pages; opaque C structures are uninhabited types,
//! so that a pointer to one cannot be mistaken for a pointer to another.

use std::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::Error;

macro_rules! opaque {
    ($($name:ident)*) => { $(pub(super) enum $name {})* };
}

opaque! {
    OsslLibCtx OsslProvider EvpPkey EvpPkeyCtx EvpMd EvpMdCtx X509 X509Name X509Store X509Extension
    Asn1Integer Asn1Time Bio BioMethod SslMethod SslCtx Ssl SslCipher
}

/// `OSSL_PARAM`: one named argument of a provider call.
#[repr(C)]
pub(super) struct OsslParam {
    pub(super) key: *const c_char,
    pub(super) data_type: c_uint,
    pub(super) data: *mut c_void,
    pub(super) data_size: usize,
    pub(super) return_size: usize,
}

macro_rules! table {
    ($(#[$meta:meta])* $name:ident {
        $($symbol:ident($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*
    }) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        pub(super) struct $name {
            $(pub(super) $symbol: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl $name {
            /// Resolves every symbol; the library stays mapped for the life of the process.
            pub(super) fn open(path: &Path) -> Result<Self, Error> {
                let not_loaded = |cause: libloading::Error| {
                    Error::NotReady(format!(
                        "{} could not be loaded: {cause}; build the bundle with `gabion bundle \
                         build`, or name another one with --prefix",
                        path.display()
                    ))
                };
                // SAFETY: running the initialisers of an OpenSSL library is what the caller asked
                // for; the path is absolute, so no search path can substitute another file.
                let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
                    .map_err(not_loaded)?;
                let table = Self {
                    $($symbol: {
                        let name = concat!(stringify!($symbol), "\0");
                        // SAFETY: the type written in this table is the function's C prototype.
                        *unsafe { library.get(name.as_bytes()) }.map_err(|_| {
                            Error::NotReady(format!(
                                "{} has no function {}; OpenSSL 3.5 or later is needed",
                                path.display(),
                                stringify!($symbol)
                            ))
                        })?
                    },)*
                };
                // Unmapping would leave dangling function pointers and exit handlers behind.
                std::mem::forget(library);
                Ok(table)
            }
        }
    };
}

table! {
    /// The functions of libcrypto that are called.
    Crypto {
        OPENSSL_init_crypto(u64, *const c_void) -> c_int;
        OpenSSL_version(c_int) -> *const c_char;
        OpenSSL_version_num() -> c_ulong;
        ERR_get_error_all(
            *mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int,
        ) -> c_ulong;
        ERR_error_string_n(c_ulong, *mut c_char, usize);
        ERR_reason_error_string(c_ulong) -> *const c_char;

        OSSL_LIB_CTX_new() -> *mut OsslLibCtx;
        OSSL_LIB_CTX_free(*mut OsslLibCtx);
        OSSL_PROVIDER_set_default_search_path(*mut OsslLibCtx, *const c_char) -> c_int;
        OSSL_PROVIDER_load_ex(*mut OsslLibCtx, *const c_char, *mut OsslParam) -> *mut OsslProvider;
        OSSL_PROVIDER_unload(*mut OsslProvider) -> c_int;
        OSSL_PROVIDER_get0_name(*const OsslProvider) -> *const c_char;
        EVP_set_default_properties(*mut OsslLibCtx, *const c_char) -> c_int;

        EVP_PKEY_free(*mut EvpPkey);
        EVP_PKEY_CTX_new_from_name(
            *mut OsslLibCtx, *const c_char, *const c_char,
        ) -> *mut EvpPkeyCtx;
        EVP_PKEY_CTX_new_from_pkey(
            *mut OsslLibCtx, *mut EvpPkey, *const c_char,
        ) -> *mut EvpPkeyCtx;
        EVP_PKEY_CTX_free(*mut EvpPkeyCtx);
        EVP_PKEY_CTX_set_group_name(*mut EvpPkeyCtx, *const c_char) -> c_int;
        EVP_PKEY_CTX_set_rsa_keygen_bits(*mut EvpPkeyCtx, c_int) -> c_int;
        EVP_PKEY_CTX_get0_provider(*const EvpPkeyCtx) -> *const OsslProvider;
        EVP_PKEY_keygen_init(*mut EvpPkeyCtx) -> c_int;
        EVP_PKEY_generate(*mut EvpPkeyCtx, *mut *mut EvpPkey) -> c_int;
        EVP_PKEY_encapsulate_init(*mut EvpPkeyCtx, *const OsslParam) -> c_int;
        EVP_PKEY_encapsulate(
            *mut EvpPkeyCtx, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize,
        ) -> c_int;
        EVP_PKEY_decapsulate_init(*mut EvpPkeyCtx, *const OsslParam) -> c_int;
        EVP_PKEY_decapsulate(
            *mut EvpPkeyCtx, *mut c_uchar, *mut usize, *const c_uchar, usize,
        ) -> c_int;
        EVP_PKEY_derive_init(*mut EvpPkeyCtx) -> c_int;
        EVP_MD_fetch(*mut OsslLibCtx, *const c_char, *const c_char) -> *mut EvpMd;
        EVP_MD_free(*mut EvpMd);
        EVP_MD_CTX_new() -> *mut EvpMdCtx;
        EVP_MD_CTX_free(*mut EvpMdCtx);
        EVP_DigestSignInit_ex(
            *mut EvpMdCtx, *mut *mut EvpPkeyCtx, *const c_char, *mut OsslLibCtx, *const c_char,
            *mut EvpPkey, *const OsslParam,
        ) -> c_int;
        EVP_DigestVerifyInit_ex(
            *mut EvpMdCtx, *mut *mut EvpPkeyCtx, *const c_char, *mut OsslLibCtx, *const c_char,
            *mut EvpPkey, *const OsslParam,
        ) -> c_int;
        EVP_DigestSign(
            *mut EvpMdCtx, *mut c_uchar, *mut usize, *const c_uchar, usize,
        ) -> c_int;
        EVP_DigestVerify(*mut EvpMdCtx, *const c_uchar, usize, *const c_uchar, usize) -> c_int;

        X509_new_ex(*mut OsslLibCtx, *const c_char) -> *mut X509;
        X509_free(*mut X509);
        X509_set_version(*mut X509, c_long) -> c_int;
        X509_get_serialNumber(*mut X509) -> *mut Asn1Integer;
        ASN1_INTEGER_set(*mut Asn1Integer, c_long) -> c_int;
        X509_getm_notBefore(*const X509) -> *mut Asn1Time;
        X509_getm_notAfter(*const X509) -> *mut Asn1Time;
        X509_gmtime_adj(*mut Asn1Time, c_long) -> *mut Asn1Time;
        X509_get_subject_name(*const X509) -> *mut X509Name;
        X509_set_issuer_name(*mut X509, *const X509Name) -> c_int;
        X509_NAME_add_entry_by_txt(
            *mut X509Name, *const c_char, c_int, *const c_uchar, c_int, c_int, c_int,
        ) -> c_int;
        X509_set_pubkey(*mut X509, *mut EvpPkey) -> c_int;
        X509_get0_pubkey(*const X509) -> *mut EvpPkey;
        X509V3_EXT_conf_nid(
            *mut c_void, *mut c_void, c_int, *const c_char,
        ) -> *mut X509Extension;
        X509_add_ext(*mut X509, *mut X509Extension, c_int) -> c_int;
        X509_EXTENSION_free(*mut X509Extension);
        X509_sign(*mut X509, *mut EvpPkey, *const EvpMd) -> c_int;
        X509_STORE_add_cert(*mut X509Store, *mut X509) -> c_int;
        X509_verify_cert_error_string(c_long) -> *const c_char;
        i2d_X509(*const X509, *mut *mut c_uchar) -> c_int;
        d2i_X509(*mut *mut X509, *mut *const c_uchar, c_long) -> *mut X509;
        i2d_PrivateKey(*const EvpPkey, *mut *mut c_uchar) -> c_int;
        d2i_AutoPrivateKey_ex(
            *mut *mut EvpPkey, *mut *const c_uchar, c_long, *mut OsslLibCtx, *const c_char,
        ) -> *mut EvpPkey;

        BIO_s_mem() -> *const BioMethod;
        BIO_new(*const BioMethod) -> *mut Bio;
        BIO_vfree(*mut Bio);
        BIO_up_ref(*mut Bio) -> c_int;
        BIO_number_written(*mut Bio) -> u64;
    }
}

table! {
    /// The functions of libssl that are called.
    Tls {
        // Not defined by libssl itself: found through its dependency, to prove which libcrypto
        // it was bound to.
        OpenSSL_version(c_int) -> *const c_char;
        OPENSSL_init_ssl(u64, *const c_void) -> c_int;
        TLS_method() -> *const SslMethod;
        SSL_CTX_new_ex(*mut OsslLibCtx, *const c_char, *const SslMethod) -> *mut SslCtx;
        SSL_CTX_free(*mut SslCtx);
        SSL_CTX_ctrl(*mut SslCtx, c_int, c_long, *mut c_void) -> c_long;
        SSL_CTX_set_ciphersuites(*mut SslCtx, *const c_char) -> c_int;
        SSL_CTX_set_num_tickets(*mut SslCtx, usize) -> c_int;
        SSL_CTX_set_verify(*mut SslCtx, c_int, *const c_void);
        SSL_CTX_get_cert_store(*const SslCtx) -> *mut X509Store;
        SSL_CTX_use_certificate(*mut SslCtx, *mut X509) -> c_int;
        SSL_CTX_use_PrivateKey(*mut SslCtx, *mut EvpPkey) -> c_int;
        SSL_CTX_check_private_key(*const SslCtx) -> c_int;

        SSL_new(*mut SslCtx) -> *mut Ssl;
        SSL_free(*mut Ssl);
        SSL_set_bio(*mut Ssl, *mut Bio, *mut Bio);
        SSL_set_fd(*mut Ssl, c_int) -> c_int;
        SSL_read_ex(*mut Ssl, *mut c_void, usize, *mut usize) -> c_int;
        SSL_write_ex(*mut Ssl, *const c_void, usize, *mut usize) -> c_int;
        SSL_shutdown(*mut Ssl) -> c_int;
        SSL_set_accept_state(*mut Ssl);
        SSL_set_connect_state(*mut Ssl);
        SSL_set1_host(*mut Ssl, *const c_char) -> c_int;
        SSL_ctrl(*mut Ssl, c_int, c_long, *mut c_void) -> c_long;
        SSL_do_handshake(*mut Ssl) -> c_int;
        SSL_get_all_async_fds(*mut Ssl, *mut c_int, *mut usize) -> c_int;
        SSL_get_error(*const Ssl, c_int) -> c_int;
        SSL_get_verify_result(*const Ssl) -> c_long;
        SSL_get_version(*const Ssl) -> *const c_char;
        SSL_get0_group_name(*mut Ssl) -> *const c_char;
        SSL_get_current_cipher(*const Ssl) -> *const SslCipher;
        SSL_CIPHER_get_name(*const SslCipher) -> *const c_char;
        SSL_session_reused(*const Ssl) -> c_int;
    }
}
