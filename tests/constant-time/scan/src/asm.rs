//! The text of `objdump -d -M intel` as functions of instructions.

use std::collections::BTreeMap;

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The address of the instruction.
    pub address: u64,
    /// The text, for reports.
    pub text: String,
    /// The mnemonic without prefixes.
    pub mnemonic: String,
    /// Operands, destination first.
    pub operands: Vec<Operand>,
    /// The mask register, and whether masked elements become zero.
    pub mask: Option<(u8, bool)>,
    /// The symbol of a direct call or jump, or of the pointer that an indirect one loads.
    pub symbol: Option<String>,
    /// The address that a place relative to the instruction pointer comes to.
    pub place: Option<u64>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A general register, 0 to 15 for rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15, and how
    /// many bytes of it.
    General(u8, u8),
    /// A vector register.
    Vector(u8),
    /// A mask register.
    Mask(u8),
    /// Memory.
    Memory(Memory),
    /// A number, or the address of a direct jump.
    Number(u64),
}

/// A memory operand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Base register.
    pub base: Option<u8>,
    /// Index register.
    pub index: Option<u8>,
    /// Whether the index is a vector: gather and scatter.
    pub vector_index: bool,
    /// Whether it is relative to the instruction pointer, or absolute.
    pub fixed: bool,
    /// Displacement.
    pub displacement: i64,
    /// Bytes, 0 if the text does not say.
    pub bytes: u8,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Demangled name, without a hash.
    pub name: String,
    /// The instructions in order.
    pub code: Vec<Instruction>,
    /// Lines that could not be read as instructions.
    pub unread: Vec<String>,
}

const LEGACY: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
const PREFIXES: [&str; 12] = [
    "data16", "cs", "ds", "es", "bnd", "lock", "rep", "repz", "repnz", "notrack", "xacquire",
    "{evex}",
];

/// Every function of a disassembly.
pub fn parse(text: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in text.lines() {
        if let Some(name) = header(line) {
            functions.push(Function {
                name: name.to_owned(),
                code: Vec::new(),
                unread: Vec::new(),
            });
        } else if let Some((address, text)) = line.trim_start().split_once(":\t")
            && let Some(function) = functions.last_mut()
        {
            match instruction(address, text) {
                Some(instruction) => function.code.push(instruction),
                None => function.unread.push(line.trim().to_owned()),
            }
        }
    }
    functions
}

/// Resolves the names of calls through pointers that the loader fills in. `relocations` is the
/// output of `objdump -R`, with lines `PLACE R_X86_64_RELATIVE *ABS*+0xADDRESS`.
pub fn bind(functions: &mut [Function], relocations: &str) {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let names = functions.iter().filter_map(|f| Some((f.code.first()?.address, f.name.clone())));
    let names: BTreeMap<u64, String> = names.collect();
    let mut bound = BTreeMap::new();
    for line in relocations.lines() {
        if let Some((place, address)) = line.split_once("*ABS*+0x")
            && let Some(place) = place.split_whitespace().next().and_then(hex)
            && let Some(name) = hex(address.trim()).and_then(|address| names.get(&address))
        {
            bound.insert(place, name);
        }
    }
    for instruction in functions.iter_mut().flat_map(|function| &mut function.code) {
        if let Some(name) = instruction.place.and_then(|place| bound.get(&place)) {
            instruction.symbol = Some((*name).clone());
        }
    }
}

/// The name in `0000000000069400 <name>:`.
fn header(line: &str) -> Option<&str> {
    let (address, name) = line.split_once(" <")?;
    let is_address = address.len() >= 8 && address.bytes().all(|b| b.is_ascii_hexdigit());
    name.strip_suffix(">:").filter(|_| is_address)
}

fn instruction(address: &str, text: &str) -> Option<Instruction> {
    let address = u64::from_str_radix(address, 16).ok()?;
    let (text, comment) = text.split_once('#').unwrap_or((text, ""));
    let text = text.trim();
    let place = comment.split_whitespace().next();
    let mut rest = text;
    let (mnemonic, operands) = loop {
        let (word, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = tail.trim_start();
        if !(PREFIXES.contains(&word) || word.starts_with("rex")) || rest.is_empty() {
            break (word, rest);
        }
    };
    let mut out = Instruction {
        address,
        text: text.to_owned(),
        mnemonic: mnemonic.to_owned(),
        operands: Vec::new(),
        mask: None,
        symbol: None,
        place: place.and_then(|place| u64::from_str_radix(place, 16).ok()),
    };
    let is_jump = mnemonic.starts_with('j') || mnemonic == "call";
    if is_jump && let Some((target, symbol)) = operands.split_once(" <") {
        out.operands.extend(u64::from_str_radix(target, 16).ok().map(Operand::Number));
        out.symbol = Some(symbol.trim_end_matches('>').to_owned());
        return Some(out);
    }
    for field in operands.split(',').filter(|field| !field.is_empty()) {
        if let Some(at) = field.find("{k") {
            let number = field[at + 2..at + 3].parse().ok()?;
            out.mask = Some((number, field.contains("{z}")));
        }
        let field = field.split('{').next().unwrap_or("");
        if !field.is_empty() {
            out.operands.push(operand(field.trim())?);
        }
    }
    Some(out)
}

fn operand(text: &str) -> Option<Operand> {
    if text.contains('[') || text.contains(" PTR ") {
        return memory(text).map(Operand::Memory);
    }
    if let Some((register, bytes)) = general(text) {
        return Some(Operand::General(register, bytes));
    }
    for name in ["xmm", "ymm", "zmm"] {
        if let Some(number) = text.strip_prefix(name) {
            return number.parse().ok().map(Operand::Vector);
        }
    }
    if let Some(number) = text.strip_prefix('k') {
        return number.parse().ok().map(Operand::Mask);
    }
    let digits = text.trim_start_matches('-').trim_start_matches("0x");
    u64::from_str_radix(digits, 16).ok().map(Operand::Number)
}

fn general(text: &str) -> Option<(u8, u8)> {
    if let Some(number) = text.strip_prefix('r') {
        let digits = number.trim_end_matches(['d', 'w', 'b']);
        if let Ok(number) = digits.parse() {
            let bytes = match text.as_bytes()[text.len() - 1] {
                b'd' => 4,
                b'w' => 2,
                b'b' => 1,
                _ => 8,
            };
            return Some((number, bytes));
        }
    }
    let place = |name: &str| LEGACY.iter().position(|known| *known == name).map(|at| at as u8);
    if let Some(at) = text.strip_prefix('r').and_then(place) {
        return Some((at, 8));
    }
    if let Some(at) = text.strip_prefix('e').and_then(place) {
        return Some((at, 4));
    }
    if let Some(at) = place(text) {
        return Some((at, 2));
    }
    let whole = match text {
        "al" | "ah" | "bl" | "bh" | "cl" | "ch" | "dl" | "dh" => format!("{}x", &text[..1]),
        "sil" | "dil" | "spl" | "bpl" => text[..2].to_owned(),
        _ => return None,
    };
    place(&whole).map(|at| (at, 1))
}

fn memory(text: &str) -> Option<Memory> {
    let bytes = match text.split_whitespace().next()? {
        "BYTE" => 1,
        "WORD" => 2,
        "DWORD" => 4,
        "QWORD" => 8,
        "XMMWORD" => 16,
        "YMMWORD" => 32,
        "ZMMWORD" => 64,
        _ => 0,
    };
    let mut out = Memory { bytes, ..Memory::default() };
    let Some((_, inside)) = text.split_once('[') else {
        // An absolute address, with or without a segment.
        out.fixed = true;
        return Some(out);
    };
    let inside = inside.trim_end_matches(']').replace('-', "+-");
    for term in inside.split('+').filter(|term| !term.is_empty()) {
        let (name, scaled) = match term.split_once('*') {
            Some((name, _)) => (name, true),
            None => (term, false),
        };
        if name == "rip" || name == "eip" {
            out.fixed = true;
        } else if let Some((register, _)) = general(name) {
            if scaled || out.base.is_some() {
                out.index = Some(register);
            } else {
                out.base = Some(register);
            }
        } else if name.contains("mm") {
            out.vector_index = true;
        } else if name == "riz" || name == "eiz" {
            // No index.
        } else {
            let negative = name.starts_with('-');
            let digits = name.trim_start_matches('-').trim_start_matches("0x");
            // Negative ones may come as 64-bit numbers.
            let number = u64::from_str_radix(digits, 16).ok()?.cast_signed();
            out.displacement = if negative { -number } else { number };
        }
    }
    Some(out)
}
