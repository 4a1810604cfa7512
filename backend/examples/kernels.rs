//! Core cycles of every kernel, for each instruction set that this processor has, as a table.
//!
//! ```text
//! cargo run --release -p gabion-backend --example kernels [FILTER] [--without-sha]
//! ```
//!
//! With `--without-sha` the kernels for AVX2 and AVX-512 are those of a processor without the SHA
//! extensions, which hash by lanes. A cycle is a cycle of the core, not a tick of the time-stamp
//! counter: every sample is compared with a chain of dependent multiplications, each of which takes
//! three cycles. The table shows medians.

#[cfg(target_arch = "x86_64")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, filters): (Vec<_>, Vec<_>) =
        arguments.iter().map(String::as_str).partition(|argument| *argument == "--without-sha");
    table::print(&table::Choice { filter: filters.concat(), without_sha: !options.is_empty() });
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    eprintln!("This table needs the time-stamp counter of x86-64 processors.");
    std::process::ExitCode::from(3)
}

#[cfg(target_arch = "x86_64")]
mod table {
    use core::arch::x86_64::_rdtsc;
    use core::hint::black_box;

    use gabion_backend::avx2::Avx2;
    use gabion_backend::avx512::Avx512;
    use gabion_backend::portable::Portable;
    use gabion_scheme::kernels::slh::{
        SlhAddress, SlhChain, SlhContext, SlhFamily, SlhHash, address_type,
    };
    use gabion_scheme::kernels::slh_fors::SlhForsTree;
    use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge, Xof};
    use gabion_scheme::{Status, ed25519};

    /// Samples of each kernel.
    const SAMPLES: usize = 301;
    /// Multiplications in the chain that measures the core's clock.
    const CHAIN: u64 = 1000;

    /// The selection of table rows.
    pub struct Choice {
        /// A substring of the kernels' names.
        pub filter: String,
        /// Whether AVX2 and AVX-512 do without the SHA extensions.
        pub without_sha: bool,
    }

    /// Runs `f` and returns the core cycles of one call.
    fn cycles(mut f: impl FnMut()) -> f64 {
        let mut samples: Vec<f64> = (0..SAMPLES)
            .map(|_| {
                f();
                // SAFETY: reading the counter has no precondition.
                let t0 = unsafe { _rdtsc() };
                let mut x = black_box(3u64);
                for _ in 0..CHAIN / 8 {
                    for _ in 0..8 {
                        // SAFETY: arithmetic on one register; opaque, so that the chain stays.
                        unsafe { core::arch::asm!("imul {0}, {0}", inout(reg) x) };
                    }
                }
                black_box(x);
                // SAFETY: reading the counter has no precondition.
                let t1 = unsafe { _rdtsc() };
                for _ in 0..8 {
                    f();
                }
                // SAFETY: reading the counter has no precondition.
                let t2 = unsafe { _rdtsc() };
                (t2 - t1) as f64 / 8.0 * (3 * CHAIN) as f64 / (t1 - t0) as f64
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        samples[SAMPLES / 2]
    }

    /// One line: a kernel, and how many items one call works on.
    fn line(choice: &Choice, name: &str, items: usize, mut run: impl FnMut(&dyn Kernels)) {
        if !name.contains(&choice.filter) {
            return;
        }
        let portable = cycles(|| run(&Portable)) / items as f64;
        let kernels = |avx2: Avx2| if choice.without_sha { avx2.without_sha() } else { avx2 };
        let avx2 = Avx2::detect().map(kernels);
        let avx2 = avx2.map(|kernels| cycles(|| run(&kernels)) / items as f64);
        let kernels =
            |avx512: Avx512| if choice.without_sha { avx512.without_sha() } else { avx512 };
        let avx512 = Avx512::detect().map(kernels);
        let avx512 = avx512.map(|kernels| cycles(|| run(&kernels)) / items as f64);
        print!("{name:44} {portable:10.0}");
        for vectors in [avx2, avx512] {
            match vectors {
                Some(vectors) => print!(" {vectors:10.0} {:8.1}", portable / vectors),
                None => print!(" {:>10} {:>8}", "-", "-"),
            }
        }
        println!();
    }

    /// Prints the lines that are chosen.
    pub fn print(choice: &Choice) {
        println!(
            "{:44} {:>10} {:>10} {:>8} {:>10} {:>8}",
            "kernel, core cycles", "portable", "avx2", "ratio", "avx512", "ratio"
        );
        sponges(choice);
        kem(choice);
        dsa(choice);
        ed25519(choice);
        slh(choice);
    }

    /// `count` sponges of one kind; cycles are for all of them.
    fn sponge_line(
        choice: &Choice,
        name: &str,
        xof: Xof,
        count: usize,
        input: usize,
        output: usize,
    ) {
        let inputs: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; input]).collect();
        let mut outputs = vec![vec![0u8; output]; count];
        line(choice, &format!("sponge {name} x {count}"), 1, |k| {
            let mut jobs: Vec<Sponge<'_>> = (inputs.iter().zip(&mut outputs))
                .map(|(i, o)| Sponge::new(xof, [&i[..i.len().min(32)], &i[i.len().min(32)..]], o))
                .collect();
            k.sponge_many(&mut jobs);
        });
    }

    fn sponges(choice: &Choice) {
        for count in [1, 2, 4, 5, 8, 64] {
            sponge_line(choice, "1 permutation", Xof::Shake256, count, 33, 128);
            sponge_line(choice, "ML-KEM A", Xof::Shake128, count, 34, 504);
            sponge_line(choice, "ML-DSA A", Xof::Shake128, count, 34, 840);
            sponge_line(choice, "H(ek) 768", Xof::Sha3_256, count, 1184, 32);
        }
        // ML-KEM-768 encapsulation to a fresh key: A, PRF, and in parallel H(ek).
        let ek = vec![1u8; 1184];
        let seed = [2u8; 34];
        let (mut a, mut prf, mut h) = (vec![[0u8; 504]; 9], vec![[0u8; 128]; 7], [0u8; 32]);
        line(choice, "sponge ML-KEM-768 encaps: 9 A, 7 PRF, H(ek)", 1, |k| {
            let mut jobs: Vec<Sponge<'_>> =
                a.iter_mut().map(|o| Sponge::new(Xof::Shake128, [&seed[..]], o)).collect();
            jobs.extend(prf.iter_mut().map(|o| Sponge::new(Xof::Shake256, [&seed[..33]], o)));
            jobs.push(Sponge::new(Xof::Sha3_256, [&ek[..]], &mut h));
            k.sponge_many(&mut jobs);
        });
    }

    /// Cycles are for one signature, or one multiple of the base point.
    fn ed25519(choice: &Choice) {
        let seeds: Vec<[u8; 32]> = (0..128u8).map(|i| [i; 32]).collect();
        let mut pairs = vec![ed25519::SigningKey::blank(); seeds.len()];
        ed25519::keygen(&Portable, &seeds, &mut pairs);
        let public: Vec<_> = pairs.iter().map(|key| *key.public()).collect();
        let messages = vec![&[7u8; 32][..]; seeds.len()];
        let mut sig = vec![0; 64 * seeds.len()];
        let keys: Vec<_> = pairs.iter().collect();
        ed25519::sign(&Portable, &keys, &messages, &mut sig);
        let (signatures, _) = sig.as_chunks::<64>();
        let mut again = vec![0; sig.len()];
        let mut status = vec![Status::NotRun; seeds.len()];
        for n in [1, 8, 64, 128] {
            line(choice, &format!("ed25519 base multiple (of {n})"), n, |k| {
                let mut out = vec![[0; 32]; n];
                k.ed25519_base_multiples(&seeds[..n], &mut out);
                black_box(out);
            });
            line(choice, &format!("ed25519 sign (of {n})"), n, |k| {
                ed25519::sign(k, &keys[..n], &messages[..n], &mut again[..64 * n]);
            });
            line(choice, &format!("ed25519 verify fresh (of {n})"), n, |k| {
                let keys = ed25519::VerifyKeys::Fresh(ed25519::Rules::Strict, &public[..n]);
                ed25519::verify(k, keys, &messages[..n], &signatures[..n], &mut status[..n]);
                assert!(status[..n].iter().all(|status| status.is_ok()));
            });
            line(choice, &format!("ed25519 verify by a sum (of {n})"), n, |k| {
                let keys = ed25519::VerifyKeys::Fresh(ed25519::Rules::Zip215, &public[..n]);
                let (z, sig) = (&vec![[0x5a; 16]; n], &signatures[..n]);
                ed25519::verify_sum(k, keys, &messages[..n], sig, z, &mut status[..n]);
                assert!(status[..n].iter().all(|status| status.is_ok()));
            });
        }
        let decode = |bytes| ed25519::VerifyKey::decode(ed25519::Rules::Strict, bytes);
        let known: Vec<_> = public.iter().flat_map(decode).collect();
        let known: Vec<_> = known.iter().collect();
        for n in [1, 8, 64, 128] {
            line(choice, &format!("ed25519 verify known (of {n})"), n, |k| {
                let keys = ed25519::VerifyKeys::Decoded(ed25519::Rules::Strict, &known[..n]);
                ed25519::verify(k, keys, &messages[..n], &signatures[..n], &mut status[..n]);
                assert!(status[..n].iter().all(|status| status.is_ok()));
            });
        }
    }

    fn kem(choice: &Choice) {
        let random: Vec<u8> =
            (0..2048u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        let small = |scale: i16| {
            KemPoly(core::array::from_fn(|i| (i as i16 * 29 % 3329 - 1664).clamp(-scale, scale)))
        };
        let mut p = small(1664);
        line(choice, "kem_rej_uniform 504 bytes", 1, |k| {
            black_box(k.kem_rej_uniform_vartime(&random[..504], &mut p));
        });
        for eta in [2, 3] {
            let mut many = vec![small(1); 8];
            line(choice, &format!("kem_cbd {eta} (of 8)"), 8, |k| {
                k.kem_cbd(eta, &random[..8 * 64 * eta], &mut many);
            });
        }
        let mut many = vec![small(1664); 8];
        line(choice, "kem_ntt (of 8)", 8, |k| k.kem_ntt(&mut many));
        line(choice, "kem_inv_ntt (of 8)", 8, |k| k.kem_inv_ntt(&mut many));
        line(choice, "kem_ntt (of 1)", 1, |k| k.kem_ntt(&mut many[..1]));
        line(choice, "kem_inv_ntt (of 1)", 1, |k| k.kem_inv_ntt(&mut many[..1]));
        let a = vec![small(1664); 16];
        for rank in [2, 3, 4] {
            let mut out = vec![small(1); rank];
            let v = vec![small(1664); rank];
            line(choice, &format!("kem_matvec {rank} x {rank}"), 1, |k| {
                k.kem_matvec(&mut out, &a[..rank * rank], &v);
            });
        }
        line(choice, "kem_to_mont", 8, |k| k.kem_to_mont(&mut many));
        let b = vec![small(1664); 4];
        line(choice, "kem_add (of 4)", 4, |k| k.kem_add(&mut many[..4], &b));
        line(choice, "kem_sub_from", 1, |k| k.kem_sub_from(&b[0], &mut p));
        let mut bytes = [0u8; 4 * 384];
        line(choice, "kem_encode12 (of 4)", 4, |k| k.kem_encode12(&b, &mut bytes));
        line(choice, "kem_decode12 (of 4)", 4, |k| {
            black_box(k.kem_decode12(&random[..4 * 384], &mut many[..4]));
        });
        for d in [1, 4, 5, 10, 11] {
            let mut bytes = vec![0u8; 4 * 32 * d];
            line(choice, &format!("kem_compress {d} (of 4)"), 4, |k| {
                k.kem_compress(d, &b, &mut bytes);
            });
            line(choice, &format!("kem_decompress {d} (of 4)"), 4, |k| {
                k.kem_decompress(d, &random[..4 * 32 * d], &mut many[..4]);
            });
        }
    }

    fn dsa(choice: &Choice) {
        let random: Vec<u8> =
            (0..2048u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        let poly = |scale: i32| {
            DsaPoly(core::array::from_fn(|i| {
                (i as i32 * 1_299_709 % 8_380_417 - 4_190_208).clamp(-scale, scale)
            }))
        };
        let mut p = poly(1);
        line(choice, "dsa_rej_uniform 840 bytes", 1, |k| {
            black_box(k.dsa_rej_uniform_vartime(&random[..840], &mut p));
        });
        for (eta, len) in [(2, 136), (4, 272)] {
            line(choice, &format!("dsa_rej_bounded {eta}, {len} bytes"), 1, |k| {
                black_box(k.dsa_rej_bounded_vartime(eta, &random[..len], &mut p));
            });
        }
        // Every call reduces its input first: iterated NTTs would leave the bounds otherwise.
        let start = vec![poly(4_190_208); 8];
        let mut many = start.clone();
        line(choice, "dsa_ntt (of 8, and a copy)", 8, |k| {
            many.clone_from_slice(&start);
            k.dsa_ntt(&mut many);
        });
        line(choice, "dsa_inv_ntt (of 8, and a copy)", 8, |k| {
            many.clone_from_slice(&start);
            k.dsa_inv_ntt(&mut many);
        });
        line(choice, "dsa_inv_ntt (of 1)", 1, |k| k.dsa_inv_ntt(&mut many[..1]));
        let a = vec![poly(4_190_208); 56];
        for (rows, columns) in [(4, 4), (6, 5), (8, 7)] {
            let mut out = vec![poly(1); rows];
            let v = vec![poly(4_190_208); columns];
            line(choice, &format!("dsa_matvec {rows} x {columns}"), 1, |k| {
                k.dsa_matvec(&mut out, &a[..rows * columns], &v);
            });
            // As in a batch, whose keys take turns: the matrix was last read seven matrices ago.
            let keys = vec![a[..rows * columns].to_vec(); 8];
            let mut turns = keys.iter().cycle();
            line(choice, &format!("dsa_matvec {rows} x {columns}, of 8 keys in turn"), 1, |k| {
                turns.by_ref().take(1).for_each(|key| k.dsa_matvec(&mut out, key, &v));
            });
        }
        let mut out = vec![poly(1); 8];
        line(choice, "dsa_pointwise", 8, |k| k.dsa_pointwise(&mut out, &a[0], &a[..8]));
        line(choice, "dsa_add", 8, |k| k.dsa_add(&mut out, &a[..8]));
        line(choice, "dsa_sub", 8, |k| k.dsa_sub(&mut out, &a[..8]));
        let mut t1 = DsaPoly(core::array::from_fn(|i| i as i32));
        line(choice, "dsa_shift_left_d", 1, |k| {
            t1.0.iter_mut().for_each(|x| *x &= 1023);
            k.dsa_shift_left_d(core::slice::from_mut(&mut t1));
        });
        let (mut hi, mut lo) = (poly(1), poly(1));
        line(choice, "dsa_power2round", 1, |k| k.dsa_power2round(&a[0], &mut hi, &mut lo));
        let hint = DsaPoly(core::array::from_fn(|i| i as i32 & 1));
        for gamma2 in [95_232, 261_888] {
            line(choice, &format!("dsa_decompose {gamma2}"), 1, |k| {
                k.dsa_decompose(gamma2, &a[0], &mut hi, &mut lo);
            });
            line(choice, &format!("dsa_make_hint {gamma2}"), 1, |k| {
                black_box(k.dsa_make_hint(gamma2, &a[0], &a[1], &mut hi));
            });
            line(choice, &format!("dsa_use_hint {gamma2}"), 1, |k| {
                k.dsa_use_hint(gamma2, &hint, &a[0], &mut hi);
            });
        }
        line(choice, "dsa_norm_below", 8, |k| {
            black_box(k.dsa_norm_below(&a[..8], 1 << 17));
        });
        for bits in [4, 6, 10] {
            let p = DsaPoly(core::array::from_fn(|i| i as i32 & ((1 << bits) - 1)));
            let mut bytes = vec![0u8; 32 * bits];
            line(choice, &format!("dsa_simple_bit_pack {bits}"), 1, |k| {
                k.dsa_simple_bit_pack(bits, &p, &mut bytes);
            });
        }
        line(choice, "dsa_simple_bit_unpack 10", 1, |k| {
            k.dsa_simple_bit_unpack(10, &random[..320], &mut p);
        });
        for (bits, b) in [(3, 2), (4, 4), (13, 1 << 12), (18, 1 << 17), (20, 1 << 19)] {
            let q = poly(b - 1);
            let mut bytes = vec![0u8; 32 * bits];
            line(choice, &format!("dsa_bit_pack {bits}"), 1, |k| {
                k.dsa_bit_pack(bits, b, &q, &mut bytes);
            });
            line(choice, &format!("dsa_bit_unpack {bits}"), 1, |k| {
                k.dsa_bit_unpack(bits, b, &random[..32 * bits], &mut p);
            });
        }
    }

    /// Cycles for one F, PRF, H or T_l; those of chains with refilled lanes show what that costs.
    fn slh(choice: &Choice) {
        for (family, name) in [(SlhFamily::Shake, "SHAKE"), (SlhFamily::Sha2, "SHA2")] {
            for n in [16, 32] {
                let context = SlhContext::new(family, &vec![1; n]);
                let name = format!("slh {name} n = {n}");
                // Whole chains of WOTS+ keys, FORS leaves, and parts of chains as they are verified.
                for count in [1, 2, 4, 8, 16, 280] {
                    let lengths = vec![15; count];
                    slh_chains(
                        choice,
                        &format!("{name} {count} x (PRF, 15 F)"),
                        &context,
                        &lengths,
                        true,
                    );
                }
                slh_chains(choice, &format!("{name} 256 x (PRF, F)"), &context, &[1; 256], true);
                slh_fors(choice, &name, &context);
                for count in [35, 35 * 16] {
                    let lengths: Vec<u32> =
                        (0..count).map(|i: u32| i.wrapping_mul(2_654_435_761) >> 28).collect();
                    slh_chains(choice, &format!("{name} {count} parts"), &context, &lengths, false);
                }
                for (count, l) in
                    [(1, 2), (2, 2), (8, 2), (64, 2), (1, 35), (2, 35), (8, 35), (64, 35)]
                {
                    let input = vec![2u8; l * n];
                    let mut out = vec![0u8; count * n];
                    line(choice, &format!("{name} {count} x T_{l}"), count, |k| {
                        let mut jobs: Vec<_> = out
                            .chunks_exact_mut(n)
                            .map(|output| SlhHash {
                                context: &context,
                                address: SlhAddress::default(),
                                input: &input,
                                output,
                            })
                            .collect();
                        k.slh_hash_many(&mut jobs);
                    });
                }
            }
        }
    }

    /// Cycles for one PRF, F or H of subtrees of FORS that fill the lanes.
    fn slh_fors(choice: &Choice, name: &str, context: &SlhContext) {
        const COUNT: usize = 16;
        const HEIGHT: u32 = 6;
        let sk_seed = vec![3u8; context.n];
        let mut roots = vec![0u8; COUNT * context.n];
        let hashes = COUNT * ((3 << HEIGHT) - 1);
        line(choice, &format!("{name} {COUNT} subtrees of 2^{HEIGHT} leaves"), hashes, |k| {
            let mut jobs: Vec<_> = (0..)
                .zip(roots.chunks_exact_mut(context.n))
                .map(|(tree, root)| SlhForsTree {
                    context,
                    sk_seed: &sk_seed,
                    address: SlhAddress::new(0, 0, address_type::FORS_TREE),
                    first: tree << HEIGHT,
                    height: HEIGHT,
                    leaf: 0,
                    path: &mut [],
                    root,
                })
                .collect();
            k.slh_fors_many(&mut jobs);
        });
    }

    fn slh_chains(
        choice: &Choice,
        name: &str,
        context: &SlhContext,
        lengths: &[u32],
        secret: bool,
    ) {
        let mut values = vec![0u8; lengths.len() * context.n];
        let sk_seed = vec![3u8; context.n];
        let hashes: u32 = lengths.iter().sum::<u32>() + u32::from(secret) * lengths.len() as u32;
        line(choice, name, hashes as usize, |k| {
            let mut jobs: Vec<_> = values
                .chunks_exact_mut(context.n)
                .zip(lengths)
                .map(|(value, &steps)| SlhChain {
                    context,
                    address: SlhAddress::default(),
                    sk_seed: secret.then_some(&sk_seed[..]),
                    start: 15 - steps,
                    steps,
                    value,
                })
                .collect();
            k.slh_chain_many(&mut jobs);
        });
    }
}
