//! Whether this program has more privileges than the user who started it: then the environment is
//! not to be trusted.

#[cfg(target_os = "linux")]
use std::ffi::c_ulong;

/// Returns whether the program runs with more rights than its caller: it is set-uid or set-gid, or
/// has capabilities of its file. By the kernel's word (AT_SECURE), which is what glibc goes by,
/// too; on another system than Linux it is not asked.
#[must_use]
pub fn is_privileged() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a function of the C library that is linked, of this type; it takes no pointer.
        unsafe { getauxval(AT_SECURE) != 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(target_os = "linux")]
const AT_SECURE: c_ulong = 23;

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn getauxval(kind: c_ulong) -> c_ulong;
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_has_no_more_rights_than_its_caller() {
        assert!(!super::is_privileged());
    }
}
