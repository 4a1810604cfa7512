//! The message of each thread's last failure.
//!
//! The message is stored under a POSIX thread key and not in a `thread_local!`, which would be
//! destroyed before other destructors of the thread run, and whose first use in a library loaded by
//! dlopen ends the process if memory is exhausted. Here, only the message is lost then.

use std::ffi::c_void;
use std::mem::size_of;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

/// The thread key plus one; zero until it is created.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Sets the message of the calling thread, or clears it if the allocation fails.
pub fn set(text: &str) {
    let Some(key) = key() else { return };
    // SAFETY: the key is never deleted; its value is null or a block of `copy`, of this thread
    // alone.
    unsafe {
        let old = libc::pthread_getspecific(key);
        let new = copy(text);
        // In a thread that is ending, the next round of destructors frees it.
        let kept = libc::pthread_setspecific(key, new) == 0;
        libc::free(if kept { old } else { new });
    }
}

/// Calls `with` with the message of the calling thread, or an empty one.
pub fn with<R>(with: impl FnOnce(&[u8]) -> R) -> R {
    let made = KEY.load(Ordering::Acquire);
    if made == 0 {
        return with(b"");
    }
    // SAFETY: the key is never deleted; its value is null or a block of `copy`, which starts with
    // the length of what follows and which only this thread changes.
    unsafe {
        let block = libc::pthread_getspecific(made - 1);
        if block.is_null() {
            return with(b"");
        }
        let len = block.cast::<usize>().read();
        with(slice::from_raw_parts(block.cast::<u8>().add(size_of::<usize>()), len))
    }
}

/// Allocates a block with the length and bytes of a message; null without memory.
fn copy(text: &str) -> *mut c_void {
    // SAFETY: the block has room for the length and the bytes, and malloc aligns it for any number.
    unsafe {
        let block = libc::malloc(size_of::<usize>() + text.len());
        if !block.is_null() {
            block.cast::<usize>().write(text.len());
            let bytes = block.cast::<u8>().add(size_of::<usize>());
            bytes.copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        block
    }
}

/// Returns the thread key, creating it on first use. `None` if the process has no free keys.
fn key() -> Option<libc::pthread_key_t> {
    let made = KEY.load(Ordering::Acquire);
    if made != 0 {
        return Some(made - 1);
    }
    let mut key = 0;
    // SAFETY: room for a key. The destructor is the C library's, which stays when this is unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(libc::free)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(key),
        Err(other) => {
            // SAFETY: another thread was first; no other code has seen this key.
            unsafe { libc::pthread_key_delete(key) };
            Some(other - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_text() {
        let text = || with(|text| String::from_utf8(text.to_vec()).unwrap());
        assert_eq!(text(), "");
        for said in ["one", "", "a longer one"] {
            set(said);
            assert_eq!(text(), said);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(text(), "");
                set("another's");
                assert_eq!(text(), "another's");
            });
        });
        assert_eq!(text(), "a longer one");
    }
}
