//! How the module is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // OpenSSL unmaps a module with its last unloading. The engine, the counters' file and whatever
    // else lives as long as the process would stay behind, and be made again by the next loading.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // If malloc fails, allocations come from the reserve (backend/src/reserve.rs).
        for function in ["malloc", "calloc", "realloc", "posix_memalign", "free"] {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={function}");
            println!("cargo:rustc-cdylib-link-arg=-Wl,--undefined=__wrap_{function}");
        }
    }
}
