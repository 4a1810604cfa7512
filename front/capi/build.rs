//! How the shared library is linked. Its soname carries the version of the interface, which gabion.h states.

fn main() {
    println!("cargo::rerun-if-changed=include/gabion.h");
    let header = std::fs::read_to_string("include/gabion.h").unwrap_or_default();
    let abi = header.lines().find_map(|line| line.strip_prefix("#define GABION_ABI "));
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && let Some(abi) = abi
    {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgabion.so.{abi}");
        // Data that lives as long as the process would leak at each unloading and be created again.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // If malloc fails, allocations come from the reserve (backend/src/reserve.rs).
        for function in ["malloc", "calloc", "realloc", "posix_memalign", "free"] {
            println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap={function}");
            println!("cargo::rustc-cdylib-link-arg=-Wl,--undefined=__wrap_{function}");
        }
    }
}
