//! Inline assembly, read and carried out.
//!
//! The text is that of the kernel, and so are the operands. It is parsed once; every instruction is
//! then done by the intrinsic of this module that stands for it. Addresses, counts and jumps come
//! from general operands, which hold pointers and constants, never from a vector register.

use std::collections::HashMap;

use super::*;

/// Replaces `core::arch::asm!`, for the part of its syntax that the kernels use.
macro_rules! asm {
    // At the end: the program is made once, and the operands are fresh.
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}) => {{
        static PROGRAM: std::sync::OnceLock<$crate::emulation::Program> =
            std::sync::OnceLock::new();
        #[allow(unused_mut)]
        let mut $m = $crate::emulation::Machine::new();
        $($before)*
        let program = PROGRAM
            .get_or_init(|| $crate::emulation::Program::parse(concat!($($text)*), &$m));
        program.run(&mut $m);
        $($after)*
    }};
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        $name:ident = in(reg) $value:expr $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give(stringify!($name), $value);} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        $name:ident = inout(reg) $value:expr => _ $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give(stringify!($name), $value);} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        $name:ident = const $value:expr $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give(stringify!($name), $value);} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        in(reg) $value:expr $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give("", $value);} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        in(zmm_reg) $value:expr $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give_vector($value, false);} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        inout(zmm_reg) $place:ident $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*]
            {$($before)* $m.give_vector($place, true);}
            {$($after)* $place = $m.take_vector();} $($($rest)*)?)
    };
    // No instruction here works on mask registers that are operands: they only pass through.
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        inout(kreg) $place:ident $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*] {$($before)*}
            {$($after)* $place = core::hint::black_box($place);} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        out($register:literal) _ $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*] {$($before)*} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        options($($option:tt)*) $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)*] {$($before)*} {$($after)*} $($($rest)*)?)
    };
    (@parts $m:ident [$($text:tt)*] {$($before:tt)*} {$($after:tt)*}
        $line:expr $(, $($rest:tt)*)?) => {
        $crate::emulation::asm!(@parts $m [$($text)* $line, "\n",] {$($before)*} {$($after)*}
            $($($rest)*)?)
    };
    ($($input:tt)*) => {
        $crate::emulation::asm!(@parts machine [] {} {} $($input)*)
    };
}
pub(crate) use asm;

/// The values that a general register can hold.
pub(crate) trait General {
    fn bits(self) -> usize;
}

impl General for usize {
    fn bits(self) -> usize {
        self
    }
}

impl<T> General for *const T {
    fn bits(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> General for &T {
    fn bits(self) -> usize {
        (self as *const T).expose_provenance()
    }
}

impl<T> General for &mut T {
    fn bits(self) -> usize {
        (self as *mut T).expose_provenance()
    }
}

/// Vector registers that instructions name; operands follow.
const NAMED: usize = 32;
const OPERANDS_MAX: usize = 12;

/// Registers and operands of one piece of assembly.
pub(crate) struct Machine {
    vectors: [__m512i; NAMED + OPERANDS_MAX],
    names: [&'static str; OPERANDS_MAX],
    general: [usize; OPERANDS_MAX],
    /// Whether an operand is a vector that is written.
    is_output: [bool; OPERANDS_MAX],
    given: usize,
    taken: usize,
    /// The result of the last comparison.
    is_equal: bool,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine {
            vectors: [_mm512_setzero_si512(); NAMED + OPERANDS_MAX],
            names: [""; OPERANDS_MAX],
            general: [0; OPERANDS_MAX],
            is_output: [false; OPERANDS_MAX],
            given: 0,
            taken: 0,
            is_equal: false,
        }
    }

    /// The next operand: a general register or a constant.
    pub(crate) fn give(&mut self, name: &'static str, value: impl General) {
        self.names[self.given] = name;
        self.general[self.given] = value.bits();
        self.given += 1;
    }

    /// The next operand: a vector register.
    pub(crate) fn give_vector(&mut self, value: __m512i, is_output: bool) {
        self.vectors[NAMED + self.given] = value;
        self.is_output[self.given] = is_output;
        self.given += 1;
    }

    /// The next vector that comes out.
    pub(crate) fn take_vector(&mut self) -> __m512i {
        while !self.is_output[self.taken] {
            self.taken += 1;
        }
        self.taken += 1;
        self.vectors[NAMED + self.taken - 1]
    }

    fn read(&self, operand: &Operand, bytes: usize) -> __m512i {
        match operand {
            Operand::Vector { number, .. } => truncate(self.vectors[*number], bytes),
            Operand::Memory(address) => {
                let mut out = _mm512_setzero_si512();
                let source = core::ptr::with_exposed_provenance::<u8>(address.at(&self.general));
                let target = (&raw mut out).cast::<u8>();
                // SAFETY: the kernel gave the address for the instruction to read there.
                unsafe { core::ptr::copy_nonoverlapping(source, target, bytes) };
                out
            }
            _ => panic!("the emulator takes no vector from {operand:?}"),
        }
    }

    fn write(&mut self, operand: &Operand, bytes: usize, value: __m512i) {
        match operand {
            // The upper bits of the register are zeroed.
            Operand::Vector { number, .. } => self.vectors[*number] = truncate(value, bytes),
            Operand::Memory(address) => {
                let target = core::ptr::with_exposed_provenance_mut(address.at(&self.general));
                // SAFETY: the kernel gave the address for the instruction to write there.
                unsafe {
                    core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), target, bytes);
                }
            }
            _ => panic!("the emulator puts no vector into {operand:?}"),
        }
    }
}

/// The lowest bytes of a register, and zeros.
fn truncate(value: __m512i, bytes: usize) -> __m512i {
    let mut out = value;
    out.0[bytes / 8..].fill(0);
    out
}

/// Products of general operands and numbers, and their sum.
#[derive(Debug)]
struct Address {
    terms: Vec<(usize, usize)>,
    constant: usize,
}

impl Address {
    fn at(&self, general: &[usize]) -> usize {
        self.terms.iter().fold(self.constant, |sum, (operand, factor)| {
            sum.wrapping_add(general[*operand].wrapping_mul(*factor))
        })
    }
}

#[derive(Debug)]
enum Operand {
    /// A register by number, and how much of it the instruction works on.
    Vector {
        number: usize,
        bytes: usize,
    },
    Memory(Address),
    General(usize),
    Number(usize),
    /// A mask register, which is only cleared.
    Mask,
}

/// The effect of an instruction.
#[derive(Debug)]
enum Operation {
    /// Moves registers whole, or as many bytes.
    Move(Option<usize>),
    Broadcast,
    /// An operation on two registers, the second of which may be memory.
    Two(fn(__m512i, __m512i) -> __m512i),
    /// An operation on three registers, the first of which is the target.
    Accumulate(fn(__m512i, __m512i, __m512i) -> __m512i),
    Ternary,
    /// An operation on one register and a number.
    ByNumber(fn(__m512i, usize) -> __m512i),
    Align,
    /// An operation on the target, another register and register 0; in the legacy encoding, which
    /// leaves all other bits unchanged.
    Sha(fn(__m128i, __m128i, __m128i) -> __m128i),
    ClearAll,
    ClearMask,
    Add,
    Compare,
    JumpIfNot(usize),
}

#[derive(Debug)]
struct Instruction {
    operation: Operation,
    operands: Vec<Operand>,
}

/// Parsed assembly.
#[derive(Debug)]
pub(crate) struct Program(Vec<Instruction>);

impl Program {
    /// Reads assembly in Intel's syntax, with the operands that the machine was given.
    pub(crate) fn parse(text: &str, machine: &Machine) -> Self {
        let mut program = Vec::new();
        let mut labels = HashMap::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || (line.starts_with("/*") && line.ends_with("*/")) {
                continue;
            }
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, program.len());
                continue;
            }
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if name == "jne" {
                let Some(target) = rest.strip_suffix('b').and_then(|label| labels.get(label))
                else {
                    panic!("the emulator knows no label for `{line}`");
                };
                let operation = Operation::JumpIfNot(*target);
                program.push(Instruction { operation, operands: Vec::new() });
                continue;
            }
            let operands = rest.split(',').map(str::trim).filter(|operand| !operand.is_empty());
            let operands = operands.map(|operand| parse_operand(operand, machine)).collect();
            program.push(Instruction { operation: operation(name), operands });
        }
        Program(program)
    }

    /// Carries the program out.
    ///
    /// # Safety
    /// Memory that the program reads and writes is there; it is the same contract as for the
    /// instructions themselves.
    pub(crate) unsafe fn run(&self, machine: &mut Machine) {
        let mut at = 0;
        while let Some(instruction) = self.0.get(at) {
            at += 1;
            if let Operation::JumpIfNot(target) = instruction.operation {
                if !machine.is_equal {
                    at = target;
                }
            } else {
                step(machine, instruction);
            }
        }
    }
}

/// Returns the operation of an instruction with this name.
fn operation(name: &str) -> Operation {
    match name {
        "vmovdqa" | "vmovdqu" | "vmovdqa64" | "vmovdqu64" => Operation::Move(None),
        "vmovq" => Operation::Move(Some(8)),
        "vpbroadcastq" => Operation::Broadcast,
        "vpxorq" | "vpxord" => Operation::Two(_mm512_xor_si512),
        "vporq" => Operation::Two(_mm512_or_si512),
        "vpaddd" => Operation::Two(_mm512_add_epi32),
        "vpaddq" => Operation::Two(_mm512_add_epi64),
        "vpshufb" => Operation::Two(_mm512_shuffle_epi8),
        "vpunpcklqdq" => Operation::Two(_mm512_unpacklo_epi64),
        "vpunpckhqdq" => Operation::Two(_mm512_unpackhi_epi64),
        "vpdpwssd" => Operation::Accumulate(dot_pairs),
        "vpternlogq" | "vpternlogd" => Operation::Ternary,
        "vprolq" => Operation::ByNumber(|a, by| cast(each(a.0, |a| a.rotate_left(by as u32 % 64)))),
        "vpshufd" => Operation::ByNumber(|a, order| shuffle_doubles(order as i32, a)),
        "vpalignr" => Operation::Align,
        "sha256rnds2" => Operation::Sha(_mm_sha256rnds2_epu32),
        "sha256msg1" => Operation::Sha(|a, b, _| _mm_sha256msg1_epu32(a, b)),
        "sha256msg2" => Operation::Sha(|a, b, _| _mm_sha256msg2_epu32(a, b)),
        "vzeroall" => Operation::ClearAll,
        "kxorw" => Operation::ClearMask,
        "add" => Operation::Add,
        "cmp" => Operation::Compare,
        _ => panic!("the emulator does not know the instruction {name}"),
    }
}

fn parse_operand(text: &str, machine: &Machine) -> Operand {
    if let Some(address) = text.trim_start_matches("qword ptr ").strip_prefix('[') {
        return Operand::Memory(parse_address(address.trim_end_matches(']'), machine));
    }
    if let Some(name) = text.strip_prefix('{') {
        let name = name.trim_end_matches('}');
        return match name.parse::<usize>() {
            Ok(position) => Operand::Vector { number: NAMED + position, bytes: 64 },
            Err(_) => Operand::General(operand_named(name, machine)),
        };
    }
    if text.starts_with('k') {
        return Operand::Mask;
    }
    for (prefix, bytes) in [("xmm", 16), ("ymm", 32), ("zmm", 64)] {
        if let Some(number) = text.strip_prefix(prefix) {
            return Operand::Vector { number: parse_number(number), bytes };
        }
    }
    Operand::Number(parse_number(text))
}

fn operand_named(name: &str, machine: &Machine) -> usize {
    let found = machine.names.iter().position(|given| *given == name);
    found.unwrap_or_else(|| panic!("the assembly was given no operand {name}"))
}

/// `{base} + {size} * 3 + 16`: a sum of products of one operand and one number at most.
fn parse_address(text: &str, machine: &Machine) -> Address {
    let mut address = Address { terms: Vec::new(), constant: 0 };
    for term in text.split('+') {
        let (mut operand, mut factor) = (None, 1);
        for part in term.split('*').map(str::trim) {
            match part.strip_prefix('{') {
                Some(name) => {
                    let named = operand_named(name.trim_end_matches('}'), machine);
                    assert!(operand.replace(named).is_none(), "a product of operands: {term}");
                }
                None => factor *= parse_number(part),
            }
        }
        match operand {
            Some(operand) => address.terms.push((operand, factor)),
            None => address.constant += factor,
        }
    }
    address
}

fn parse_number(text: &str) -> usize {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("the emulator takes {text} for no operand that it knows"))
}

fn low(a: __m512i) -> __m128i {
    _mm512_castsi512_si128(a)
}

fn wide(a: __m128i) -> __m512i {
    __m512i([a.0[0], a.0[1], 0, 0, 0, 0, 0, 0])
}

/// One instruction that is no jump.
fn step(m: &mut Machine, instruction: &Instruction) {
    let operands = &instruction.operands[..];
    // The width of the instruction is that of its registers, which are of one width.
    let bytes = operands.iter().find_map(|operand| match operand {
        Operand::Vector { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let bytes = bytes.unwrap_or(0);
    match (&instruction.operation, operands) {
        (Operation::Move(exactly), [to, from]) => {
            let bytes = exactly.unwrap_or(bytes);
            m.write(to, bytes, m.read(from, bytes));
        }
        (Operation::Broadcast, [to, from]) => {
            let word = m.read(from, 8).0[0];
            m.write(to, bytes, __m512i([word; 8]));
        }
        (Operation::Two(f), [to, a, b]) => {
            m.write(to, bytes, f(m.read(a, bytes), m.read(b, bytes)));
        }
        (Operation::Accumulate(f), [to, a, b]) => {
            m.write(to, bytes, f(m.read(to, bytes), m.read(a, bytes), m.read(b, bytes)));
        }
        (Operation::Ternary, [to, b, c, Operand::Number(table)]) => {
            let (a, b, c) = (m.read(to, bytes), m.read(b, bytes), m.read(c, bytes));
            m.write(to, bytes, ternary(*table as u8, a, b, c));
        }
        (Operation::ByNumber(f), [to, a, Operand::Number(by)]) => {
            m.write(to, bytes, f(m.read(a, bytes), *by));
        }
        (Operation::Align, [to, a, b, Operand::Number(count)]) => {
            assert_eq!(bytes, 16, "the emulator aligns 128 bits only");
            let (a, b) = (low(m.read(a, bytes)), low(m.read(b, bytes)));
            m.write(to, bytes, wide(align(*count, a, b)));
        }
        (Operation::Sha(f), [Operand::Vector { number, .. }, b]) => {
            assert!(*number < 16, "these instructions have registers 0 to 15 only");
            let out = f(low(m.vectors[*number]), low(m.read(b, 16)), low(m.vectors[0]));
            m.vectors[*number].0[..2].copy_from_slice(&out.0);
        }
        // Of registers 0 to 15.
        (Operation::ClearAll, []) => m.vectors[..16].fill(_mm512_setzero_si512()),
        (Operation::ClearMask, [Operand::Mask, Operand::Mask, Operand::Mask]) => {}
        (Operation::Add, [Operand::General(to), Operand::Number(by)]) => m.general[*to] += by,
        (Operation::Compare, [Operand::General(a), Operand::General(b)]) => {
            m.is_equal = m.general[*a] == m.general[*b];
        }
        _ => panic!("the emulator does not know this form of an instruction: {instruction:?}"),
    }
}
