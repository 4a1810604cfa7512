//! Compiles the kernels for this processor, by the system's C++ compiler.

fn main() {
    println!("cargo::rerun-if-changed=../kernels");
    println!("cargo::rerun-if-changed=emulator.cpp");
    println!("cargo::rerun-if-changed=emulator.hpp");
    cc::Build::new()
        .cpp(true)
        // Nothing of C++'s library is used.
        .cpp_link_stdlib(None)
        .std("c++17")
        .opt_level(2)
        .include("../kernels")
        .flags(["-fno-exceptions", "-fno-rtti"])
        .flags(["-Wshadow", "-Wconversion", "-Wno-unknown-pragmas"])
        .file("emulator.cpp")
        .compile("gabion_cuda_emulator");
}
