//! Computes the registers, flags and stack slots that hold data, along every path of a function.

use std::collections::{BTreeMap, BTreeSet};

use crate::asm::{Function, Instruction, Memory, Operand};

/// The interpretation of a function's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Arguments are lengths, parameters, and pointers to data.
    Kernel,
    /// Like a kernel, but the arguments in these registers point to descriptions (of jobs, of
    /// lanes): values loaded through them are pointers to data, or lengths.
    Jobs(&'static [usize]),
    /// A flow, full of structures: only what leaves a vector register, or is the verdict of
    /// `ct::eq_mask`, is data.
    Flow,
}

/// Every division in a function, whatever it works on: for kernels that divide nothing, of which memcheck follows the
/// data.
pub fn divisions(function: &Function) -> Vec<Finding> {
    let divides = |mnemonic: &str| mnemonic.contains("div");
    let code = function.code.iter().filter(|instruction| divides(&instruction.mnemonic));
    let finding =
        |i: &Instruction| Finding { kind: "division", address: i.address, text: i.text.clone() };
    code.map(finding).collect()
}

/// A place where a secret may show.
#[derive(Clone, Debug)]
pub struct Finding {
    /// `branch`, `address`, `division`, `gather` or `mixture`.
    pub kind: &'static str,
    /// Where.
    pub address: u64,
    /// The instruction.
    pub text: String,
}

/// The kind of value in a register or slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A public value, or a pointer to data.
    Public,
    /// A pointer to public values.
    Structure,
    /// A pointer into the stack, with the slot where its array begins.
    Local(u8, i64),
    /// A pointer to `ct::eq_mask`, whose verdict is data.
    Comparison,
    /// Data.
    Data,
}

impl Kind {
    fn join(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Data, _) | (_, Kind::Data) => Kind::Data,
            (Kind::Comparison, _) | (_, Kind::Comparison) => Kind::Comparison,
            (Kind::Local(a, x), Kind::Local(b, y)) => {
                let (base, slot) = (a, x).min((b, y));
                Kind::Local(base, slot)
            }
            (Kind::Local(a, x), _) | (_, Kind::Local(a, x)) => Kind::Local(a, x),
            (Kind::Structure, _) | (_, Kind::Structure) => Kind::Structure,
            _ => Kind::Public,
        }
    }
}

/// The function that compares secrets.
const COMPARISON: &str = "gabion_scheme::ct::eq_mask";
const RAX: u8 = 0;
const RDX: u8 = 2;
const RSP: u8 = 4;
const RBP: u8 = 5;
/// Registers of the first six arguments.
pub const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// Registers that a call does not keep: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CLOBBERED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// Instructions of two operands that do not read their destination.
const REPLACING: [&str; 9] =
    ["popcnt", "lzcnt", "tzcnt", "bsf", "bsr", "blsr", "blsi", "blsmsk", "rorx"];
/// Bytes of a stack slot.
const SLOT: i64 = 8;

#[derive(Clone, PartialEq, Eq)]
struct State {
    general: [Kind; 16],
    vector: [Kind; 32],
    mask: [Kind; 8],
    flags: Kind,
    /// By base register and slot; what is missing is public.
    stack: BTreeMap<(u8, i64), Kind>,
}

impl State {
    fn entry(model: Model) -> State {
        let mut general = [Kind::Public; 16];
        match model {
            Model::Kernel => {}
            Model::Jobs(registers) => {
                for &register in registers {
                    general[register] = Kind::Structure;
                }
            }
            Model::Flow => general = [Kind::Structure; 16],
        }
        State {
            general,
            vector: [Kind::Public; 32],
            mask: [Kind::Public; 8],
            flags: Kind::Public,
            stack: BTreeMap::new(),
        }
    }

    /// Takes in another path; says whether anything is new.
    fn merge(&mut self, other: &State) -> bool {
        let before = self.clone();
        let pairs = self.general.iter_mut().zip(&other.general);
        let pairs = pairs.chain(self.vector.iter_mut().zip(&other.vector));
        let pairs = pairs.chain(self.mask.iter_mut().zip(&other.mask));
        for (mine, theirs) in pairs {
            *mine = mine.join(*theirs);
        }
        self.flags = self.flags.join(other.flags);
        for (slot, kind) in &other.stack {
            let mine = self.stack.entry(*slot).or_insert(Kind::Public);
            *mine = mine.join(*kind);
        }
        *self != before
    }
}

/// One pass over one instruction.
struct Step<'a> {
    model: Model,
    frame_pointer: bool,
    state: &'a mut State,
    instruction: &'a Instruction,
    findings: Vec<&'static str>,
}

impl Step<'_> {
    fn is_stack(&self, register: u8) -> bool {
        register == RSP || (register == RBP && self.frame_pointer)
    }

    /// Returns the kind of an address, from its base and index.
    fn address(&self, memory: &Memory) -> Kind {
        if memory.fixed && memory.base.is_none() && memory.index.is_none() {
            return Kind::Structure;
        }
        let index = memory.index.map_or(Kind::Public, |r| self.state.general[usize::from(r)]);
        match memory.base {
            Some(base) if self.is_stack(base) => {
                Kind::Local(base, memory.displacement.div_euclid(SLOT)).join(index)
            }
            Some(base) => self.state.general[usize::from(base)].join(index),
            None => index,
        }
    }

    /// The slots of a memory operand, if they are known exactly.
    fn slots(&self, memory: &Memory) -> Option<(u8, std::ops::RangeInclusive<i64>)> {
        let base = memory.base.filter(|base| self.is_stack(*base))?;
        if memory.index.is_some() {
            return None;
        }
        let last = memory.displacement + i64::from(memory.bytes.max(1)) - 1;
        Some((base, memory.displacement.div_euclid(SLOT)..=last.div_euclid(SLOT)))
    }

    fn check(&mut self, memory: &Memory) {
        if memory.vector_index {
            self.findings.push("gather");
        } else if self.address(memory) == Kind::Data {
            self.findings.push("address");
        }
    }

    fn load(&mut self, memory: &Memory) -> Kind {
        self.check(memory);
        let at = |slot| self.state.stack.get(&slot).copied().unwrap_or(Kind::Public);
        if let Some((base, mut slots)) = self.slots(memory) {
            let first = slots.next().map_or(Kind::Public, |slot| at((base, slot)));
            return slots.fold(first, |kind, slot| kind.join(at((base, slot))));
        }
        match (self.address(memory), self.model) {
            (Kind::Local(base, slot), _) => {
                let inner = match memory.base {
                    Some(register) if self.is_stack(register) => 0,
                    _ => memory.displacement.div_euclid(SLOT),
                };
                at((base, slot)).join(at((base, slot + inner)))
            }
            (_, Model::Flow) => Kind::Structure,
            (Kind::Structure, _) => Kind::Public,
            _ => Kind::Data,
        }
    }

    fn store(&mut self, memory: &Memory, kind: Kind) {
        self.check(memory);
        if let Some((base, slots)) = self.slots(memory) {
            let whole = i64::from(memory.bytes) >= SLOT;
            for slot in slots {
                let old = self.state.stack.entry((base, slot)).or_insert(Kind::Public);
                *old = if whole { kind } else { old.join(kind) };
            }
        } else if let Kind::Local(base, slot) = self.address(memory) {
            let old = self.state.stack.entry((base, slot)).or_insert(Kind::Public);
            *old = old.join(kind);
        }
    }

    fn read(&mut self, operand: &Operand) -> Kind {
        match operand {
            Operand::General(register, _) if self.is_stack(*register) => Kind::Local(*register, 0),
            Operand::General(register, _) => self.state.general[usize::from(*register)],
            Operand::Vector(register) => self.state.vector[usize::from(*register)],
            Operand::Mask(register) => self.state.mask[usize::from(*register)],
            Operand::Memory(memory) => self.load(memory),
            Operand::Number(_) => Kind::Public,
        }
    }

    fn write(&mut self, operand: &Operand, kind: Kind) {
        match operand {
            Operand::General(register, _) if self.is_stack(*register) => {}
            Operand::General(register, bytes) => {
                let place = &mut self.state.general[usize::from(*register)];
                *place = if *bytes < 4 { place.join(kind) } else { kind };
            }
            Operand::Vector(register) => self.state.vector[usize::from(*register)] = kind,
            Operand::Mask(register) => self.state.mask[usize::from(*register)] = kind,
            Operand::Memory(memory) => self.store(memory, kind),
            Operand::Number(_) => {}
        }
    }

    fn read_all(&mut self, operands: &[Operand]) -> Kind {
        operands.iter().fold(Kind::Public, |kind, operand| kind.join(self.read(operand)))
    }

    fn call(&mut self, target: Kind) {
        let symbol = self.instruction.symbol.as_deref().unwrap_or("");
        let gives_data = symbol.contains(COMPARISON)
            || target == Kind::Comparison
            || (symbol.contains("gabion_backend::avx512")
                && !symbol.contains("sponge::")
                && !symbol.contains("_vartime"));
        let given = match self.model {
            Model::Flow => Kind::Structure,
            _ => Kind::Public,
        };
        for register in CLOBBERED {
            self.state.general[register] = given;
        }
        self.state.vector = [Kind::Public; 32];
        self.state.mask = [Kind::Public; 8];
        self.state.flags = Kind::Public;
        if gives_data {
            self.state.general[usize::from(RAX)] = Kind::Data;
        }
    }

    fn run(&mut self) {
        let instruction = self.instruction;
        let operands = &instruction.operands[..];
        let name = instruction.mnemonic.as_str();
        match name {
            "ret" | "nop" | "int3" | "ud2" | "endbr64" | "vzeroupper" | "vzeroall" | "leave" => {}
            "call" => {
                let target = self.target(operands);
                self.call(target);
            }
            "jmp" => _ = self.target(operands),
            "push" => _ = self.read_all(operands),
            "pop" => self.write(&operands[0], Kind::Public),
            "lea" => {
                if let Operand::Memory(memory) = &operands[1] {
                    let kind = self.address(memory);
                    self.write(&operands[0], kind);
                }
            }
            _ if name.starts_with('j') => {
                if self.state.flags == Kind::Data {
                    self.findings.push("branch");
                }
            }
            _ if name.contains("div") => {
                // A flow divides lengths by lengths.
                let operand = self.read_all(operands).join(self.state.general[usize::from(RAX)]);
                if operand == Kind::Data || self.model != Model::Flow {
                    self.findings.push("division");
                }
            }
            _ if name.contains("gather") || name.contains("scatter") => {
                self.findings.push("gather");
            }
            _ if name.starts_with('v') || name.starts_with('k') => self.vector(name, operands),
            _ => self.general(name, operands),
        }
    }

    /// The target of a jump or call that is not a number.
    fn target(&mut self, operands: &[Operand]) -> Kind {
        let target = self.read_all(operands);
        if target == Kind::Data {
            self.findings.push("branch");
        }
        target
    }

    fn vector(&mut self, name: &str, operands: &[Operand]) {
        const FLAGS: [&str; 5] = ["vptest", "vucomi", "vcomi", "kortest", "ktest"];
        const WITH_DESTINATION: [&str; 6] =
            ["vpternlog", "vpermt2", "vpermi2", "vpdp", "vfm", "vpshld"];
        if FLAGS.iter().any(|prefix| name.starts_with(prefix)) {
            self.state.flags = self.read_all(operands);
            return;
        }
        let Some((destination, sources)) = operands.split_first() else {
            return;
        };
        let is_zero = name.contains("xor") && sources.len() == 2 && sources[0] == sources[1];
        let mut kind = if is_zero { Kind::Public } else { self.read_all(sources) };
        if let Some((mask, zeroing)) = self.instruction.mask {
            kind = kind.join(self.state.mask[usize::from(mask)]);
            if !zeroing {
                kind = kind.join(self.read(destination));
            }
        }
        if WITH_DESTINATION.iter().any(|prefix| name.starts_with(prefix)) {
            kind = kind.join(self.read(destination));
        }
        let leaves = matches!(destination, Operand::General(..));
        let from_vector = matches!(sources.first(), Some(Operand::Vector(_) | Operand::Mask(_)));
        if self.model == Model::Flow && leaves && from_vector {
            kind = Kind::Data;
        }
        self.write(destination, kind);
    }

    fn general(&mut self, name: &str, operands: &[Operand]) {
        let flags = self.state.flags;
        if let [place @ Operand::General(..), Operand::Vector(_), ..] = operands
            && self.model == Model::Flow
        {
            return self.write(place, Kind::Data);
        }
        match (name, operands) {
            ("cmp" | "test" | "bt", _) => self.state.flags = self.read_all(operands),
            ("xor" | "sub" | "pxor" | "xorps", [a, b]) if a == b => {
                self.write(a, Kind::Public);
                self.state.flags = Kind::Public;
            }
            ("mul" | "imul", [factor]) => {
                let kind = self.read(factor).join(self.state.general[usize::from(RAX)]);
                for register in [RAX, RDX] {
                    self.write(&Operand::General(register, 8), kind);
                }
                self.state.flags = kind;
            }
            ("mulx", [high, low, factor]) => {
                let kind = self.read(factor).join(self.state.general[usize::from(RDX)]);
                self.write(high, kind);
                self.write(low, kind);
            }
            ("cdq" | "cqo", _) => {
                self.state.general[usize::from(RDX)] = self.state.general[usize::from(RAX)];
            }
            ("cdqe" | "cwde", _) => {}
            ("xchg", [a, b]) if a == b => {}
            ("xchg" | "xadd" | "cmpxchg", [a, b]) => {
                let kind = self.read(a).join(self.read(b));
                self.write(a, kind);
                self.write(b, kind);
            }
            (_, [place]) if name.starts_with("set") => self.write(place, flags),
            (_, [place, source]) if name.starts_with("cmov") => {
                let kind = self.read(place).join(self.read(source)).join(flags);
                self.write(place, kind);
            }
            (_, [place, source]) if name.starts_with("mov") => {
                let symbol = self.instruction.symbol.as_deref().unwrap_or("");
                let kind = match symbol.contains(COMPARISON) {
                    true => Kind::Comparison,
                    false => self.read(source),
                };
                self.write(place, kind);
            }
            (_, [place, sources @ ..]) => {
                // Three operands, or one that is only read: the destination's old value is gone.
                let replaces = sources.len() > 1 || REPLACING.contains(&name);
                let mut kind = self.read_all(sources);
                if !replaces || name.starts_with("sh") && name.ends_with('d') {
                    kind = kind.join(self.read(place));
                }
                if name == "adc" || name == "sbb" {
                    kind = kind.join(flags);
                }
                self.write(place, kind);
                let keeps_flags =
                    matches!(name, "not" | "bswap" | "shlx" | "shrx" | "sarx" | "rorx");
                if !keeps_flags {
                    self.state.flags = kind;
                }
            }
            _ => {}
        }
    }
}

/// Returns whether control never goes on behind this instruction.
fn is_last(instruction: &Instruction) -> bool {
    const NO_RETURN: [&str; 4] = ["panic", "_fail", "unwrap_failed", "handle_alloc_error"];
    let symbol = instruction.symbol.as_deref().unwrap_or("");
    match instruction.mnemonic.as_str() {
        "ret" | "ud2" | "int3" | "jmp" => true,
        "call" => NO_RETURN.iter().any(|part| symbol.contains(part)),
        _ => false,
    }
}

/// Where control goes from an instruction.
fn successors(function: &Function, at: usize, entries: &[usize]) -> Vec<usize> {
    let instruction = &function.code[at];
    let index = |address: u64| function.code.binary_search_by_key(&address, |i| i.address).ok();
    let next = (at + 1 < function.code.len() && !is_last(instruction)).then_some(at + 1);
    let name = instruction.mnemonic.as_str();
    match instruction.operands.first() {
        Some(Operand::Number(target)) if name.starts_with('j') => {
            index(*target).into_iter().chain(next).collect()
        }
        // A jump table.
        _ if name == "jmp" => entries.to_vec(),
        _ => next.into_iter().collect(),
    }
}

/// Blocks that only a jump table can reach: nothing runs into them and no jump names them.
fn table_entries(function: &Function) -> Vec<usize> {
    let code = &function.code;
    let jumps = code.iter().filter(|i| i.mnemonic.starts_with('j'));
    let named: BTreeSet<u64> = jumps
        .filter_map(|i| match i.operands.first() {
            Some(Operand::Number(target)) => Some(*target),
            _ => None,
        })
        .collect();
    let is_padding = |i: &Instruction| ["nop", "int3", "ud2"].contains(&i.mnemonic.as_str());
    let mut reached = true;
    let mut out = Vec::new();
    for (at, instruction) in code.iter().enumerate() {
        if named.contains(&instruction.address) {
            reached = true;
        } else if !reached && !is_padding(instruction) {
            out.push(at);
            reached = true;
        }
        if is_last(instruction) {
            reached = false;
        }
    }
    out
}

/// Where registers wider than 16 bytes are used between instructions of the SHA extensions, which have no
/// encoding of AVX: since Golden Cove, Intel's processors take 250 cycles for each step from one to the other.
fn mixtures(function: &Function) -> impl Iterator<Item = usize> {
    let has_sha = function.code.iter().any(|i| i.mnemonic.starts_with("sha256"));
    let is_wide = |i: &Instruction| i.text.contains("ymm") || i.text.contains("zmm");
    let places = function.code.iter().enumerate();
    places.filter(move |(_, i)| has_sha && is_wide(i)).map(|(at, _)| at)
}

/// Every place where a secret may show.
///
/// # Errors
/// A function without code, or with instructions that could not be read.
pub fn findings(function: &Function, model: Model) -> Result<Vec<Finding>, String> {
    if function.code.is_empty() {
        return Err(format!("{} has no code", function.name));
    }
    if let Some(line) = function.unread.first() {
        return Err(format!("{}: can't read {line}", function.name));
    }
    let frame_pointer = function
        .code
        .iter()
        .take(16)
        .any(|i| i.text.starts_with("mov") && i.text.ends_with("rbp,rsp"));
    let entries = table_entries(function);
    let mut states: Vec<Option<State>> = vec![None; function.code.len()];
    states[0] = Some(State::entry(model));
    let mut work = BTreeSet::from([0]);
    let mut found: BTreeSet<(usize, &'static str)> = BTreeSet::new();
    while let Some(at) = work.pop_first() {
        let Some(mut state) = states[at].clone() else {
            continue;
        };
        let instruction = &function.code[at];
        let (state_after, findings) = (&mut state, Vec::new());
        let mut step = Step { model, frame_pointer, state: state_after, instruction, findings };
        step.run();
        found.extend(step.findings.iter().map(|kind| (at, *kind)));
        for next in successors(function, at, &entries) {
            let is_new = match &mut states[next] {
                Some(known) => known.merge(&state),
                place => {
                    *place = Some(state.clone());
                    true
                }
            };
            if is_new {
                work.insert(next);
            }
        }
    }
    found.extend(mixtures(function).map(|at| (at, "mixture")));
    let finding = |(at, kind): (usize, &'static str)| {
        let Instruction { address, text, .. } = &function.code[at];
        Finding { kind, address: *address, text: text.clone() }
    };
    Ok(found.into_iter().map(finding).collect())
}
