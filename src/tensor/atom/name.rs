//! Prints and parses CuTe's names of atoms, for example `SM80_16x8x16_F32F16F16F32_TN`. This is how
//! `"..".parse::<MmaAtom>()` finds its instruction.

use std::fmt;
use std::str::FromStr;

use super::copy::{CacheOp, CopyAtom, CopyOp, Matrices};
use super::error::AtomError;
use super::mma::{MmaAtom, MmaOp};
use super::mma_sync::{BitOp, MmaSync};
use super::smem::{SmemAtom, SmemSwizzle};
use super::val_type::ValType;
use super::wgmma::{OperandSource, Wgmma};
use crate::arch::Major;

/// The C++ types with which CuTe instantiates `UniversalFMA`.
const FMA_TYPES: [(ValType, &str); 4] = [
    (ValType::F16, "half_t"),
    (ValType::Bf16, "bfloat16_t"),
    (ValType::F32, "float"),
    (ValType::F64, "double"),
];

impl fmt::Display for MmaOp {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MmaOp::UniversalFma { ty } => {
                let name = FMA_TYPES.iter().find(|(t, _)| t == ty);
                write!(f, "UniversalFMA<{}>", name.map_or(ty.name(), |(_, name)| name))
            }
            MmaOp::Dp4a => f.write_str("SM61_DP4A"),
            MmaOp::Dp2a => f.write_str("SM61_DP2A"),
            MmaOp::QuadPair { a, b, c } => {
                // In BLAS terms N means column-major, which is K-major only for B.
                let a = if *a == Major::K { 'T' } else { 'N' };
                let b = if *b == Major::K { 'N' } else { 'T' };
                write!(f, "SM70_8x8x4_{c}F16F16{c}_{a}{b}")
            }
            MmaOp::Sync(op) => op.fmt(f),
            MmaOp::Wgmma(op) => op.fmt(f),
        }
    }
}

impl MmaSync {
    /// The architecture in CuTe's name. It is not always the oldest one that has the instruction.
    fn name_sm(&self) -> u16 {
        match (self.a, self.b, self.shape_mnk) {
            (ValType::F16, _, [16, 8, 8]) => 75,
            (ValType::S8, ValType::S8, [8, 8, 16]) if !self.saturate => 75,
            _ => self.sm().max(80),
        }
    }
}

impl fmt::Display for MmaSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MmaSync { shape_mnk: [m, n, k], a, b, c, saturate, bit_op } = self;
        write!(f, "SM{}_{m}x{n}x{k}_{c}{a}{b}{c}_TN", self.name_sm())?;
        f.write_str(if *saturate { "_SATURATE" } else { "" })?;
        f.write_str(match bit_op {
            None => "",
            Some(BitOp::Xor) => "_XORPOPC",
            Some(BitOp::And) => "_ANDPOPC",
        })
    }
}

impl fmt::Display for Wgmma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape_mnk();
        let Wgmma { a, b, c, .. } = self;
        let source = match self.source_a {
            OperandSource::Shared => "SS",
            OperandSource::Registers => "RS",
        };
        write!(f, "SM90_{m}x{n}x{k}_{c}{a}{b}_{source}")?;
        f.write_str(if self.allows_mn_major() { "" } else { "_TN" })?;
        f.write_str(if self.saturate { "_SATURATE" } else { "" })
    }
}

/// For example `16x8x16`.
#[inline]
fn shape(text: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = text.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// For example `F32F16F16F32`.
fn types(mut text: &str) -> Option<Vec<ValType>> {
    let mut found = Vec::new();
    while !text.is_empty() {
        // No type name is a prefix of another one.
        let ty = ValType::ALL.into_iter().find(|ty| text.starts_with(ty.name()))?;
        text = text.strip_prefix(ty.name())?;
        found.push(ty);
    }
    Some(found)
}

#[inline]
fn mma_op(name: &str) -> Option<MmaOp> {
    match name {
        "SM61_DP4A" => return Some(MmaOp::Dp4a),
        "SM61_DP2A" => return Some(MmaOp::Dp2a),
        _ => {}
    }
    if let Some(ty) = name.strip_prefix("UniversalFMA<") {
        let ty = ty.strip_suffix('>')?;
        let (ty, _) = FMA_TYPES.iter().find(|(_, name)| *name == ty)?;
        return Some(MmaOp::UniversalFma { ty: *ty });
    }
    let mut parts = name.strip_prefix("SM")?.split('_');
    let sm: u16 = parts.next()?.parse().ok()?;
    let (shape, types) = (shape(parts.next()?)?, types(parts.next()?)?);
    let rest: Vec<&str> = parts.collect();
    match (types.as_slice(), rest.as_slice()) {
        ([c, a, b, _], [majors]) if sm == 70 => {
            if (*a, *b, shape) != (ValType::F16, ValType::F16, [8, 8, 4]) {
                return None;
            }
            let (a, b) = match *majors {
                "TN" => (Major::K, Major::K),
                "TT" => (Major::K, Major::Mn),
                "NN" => (Major::Mn, Major::K),
                "NT" => (Major::Mn, Major::Mn),
                _ => return None,
            };
            Some(MmaOp::QuadPair { a, b, c: *c })
        }
        ([d, a, b, _], ["TN", suffix @ ..]) => {
            let plain = MmaSync::new(shape, *a, *b, *d);
            Some(MmaOp::Sync(match suffix {
                [] => plain,
                ["SATURATE"] => plain.saturate(),
                ["XORPOPC"] => plain.bit_op(BitOp::Xor),
                ["ANDPOPC"] => plain.bit_op(BitOp::And),
                _ => return None,
            }))
        }
        ([d, a, b], [source, rest @ ..]) => {
            let source = match *source {
                "SS" => OperandSource::Shared,
                "RS" => OperandSource::Registers,
                _ => return None,
            };
            let [_, n, _] = shape;
            let plain = Wgmma::new(n, *a, *b, *d, source);
            Some(MmaOp::Wgmma(if rest.contains(&"SATURATE") { plain.saturate() } else { plain }))
        }
        _ => None,
    }
}

impl FromStr for MmaOp {
    type Err = AtomError;

    /// Parses a CuTe name. [`MmaAtom::new`] checks whether the instruction exists.
    #[inline]
    fn from_str(name: &str) -> Result<Self, AtomError> {
        let unknown = || AtomError::UnknownName { name: name.to_owned() };
        let op = mma_op(name).ok_or_else(unknown)?;
        // CuTe names two instructions once per architecture.
        let printed = op.to_string();
        if printed == name
            || printed.strip_prefix("SM75").is_some_and(|p| name == format!("SM80{p}"))
        {
            return Ok(op);
        }
        Err(unknown())
    }
}

impl fmt::Display for CopyOp {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = |matrices: &Matrices, transposed: &bool| {
            let n = matrices.count();
            if *transposed { format!("U16x{}", 2 * n) } else { format!("U32x{n}") }
        };
        let direction = |transposed: &bool| if *transposed { 'T' } else { 'N' };
        match self {
            CopyOp::Universal { bits } => write!(f, "UniversalCopy<uint{bits}_t>"),
            CopyOp::CpAsync { bits, cache, zero_fill } => {
                let cache = match cache {
                    CacheOp::Always => "ALWAYS",
                    CacheOp::Global => "GLOBAL",
                };
                let zero_fill = if *zero_fill { "_ZFILL" } else { "" };
                write!(f, "SM80_CP_ASYNC_CACHE{cache}{zero_fill}<uint{bits}_t>")
            }
            CopyOp::LdMatrix { matrices: m, transposed: t } => {
                write!(f, "SM75_{}_LDSM_{}", matrix(m, t), direction(t))
            }
            CopyOp::StMatrix { matrices: m, transposed: t } => {
                write!(f, "SM90_{}_STSM_{}", matrix(m, t), direction(t))
            }
            CopyOp::MovMatrix => f.write_str("SM75_U32x1_MOVM_T"),
            CopyOp::ShuffleTranspose { apart } => {
                write!(f, "SM50_Shuffle_U32_2x2Trans_XOR{apart}")
            }
            CopyOp::Tma { op, bits } => write!(f, "{}<{bits}>", op.name()),
            CopyOp::Bulk { op, bits } => write!(f, "{}<{bits}>", op.name()),
        }
    }
}

impl CopyOp {
    /// Takes the size from the name, if the instruction has a free size.
    fn with_bits_of(self, name: &str) -> CopyOp {
        let bits = || name.split_once('<')?.1.strip_suffix('>')?.parse().ok();
        match (self, bits()) {
            (CopyOp::Tma { op, .. }, Some(bits)) => CopyOp::Tma { op, bits },
            (CopyOp::Bulk { op, .. }, Some(bits)) => CopyOp::Bulk { op, bits },
            _ => self,
        }
    }
}

impl FromStr for CopyOp {
    type Err = AtomError;

    #[inline]
    fn from_str(name: &str) -> Result<Self, AtomError> {
        let found = CopyOp::all().map(|op| op.with_bits_of(name)).find(|op| op.to_string() == name);
        found.ok_or_else(|| AtomError::UnknownName { name: name.to_owned() })
    }
}

impl FromStr for MmaAtom {
    type Err = AtomError;

    #[inline]
    fn from_str(name: &str) -> Result<Self, AtomError> {
        MmaAtom::new(name.parse::<MmaOp>()?)
    }
}

impl FromStr for CopyAtom {
    type Err = AtomError;

    #[inline]
    fn from_str(name: &str) -> Result<Self, AtomError> {
        CopyAtom::new(name.parse()?)
    }
}

impl fmt::Display for SmemAtom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let major = match self.major {
            Major::K => "K",
            Major::Mn => "MN",
        };
        let swizzle = match self.swizzle {
            SmemSwizzle::Inter => "INTER",
            SmemSwizzle::Sw32 => "SW32",
            SmemSwizzle::Sw64 => "SW64",
            SmemSwizzle::Sw128 => "SW128",
        };
        write!(f, "GMMA::Layout_{major}_{swizzle}_Atom")
    }
}

impl FromStr for SmemAtom {
    type Err = AtomError;

    #[inline]
    fn from_str(name: &str) -> Result<Self, AtomError> {
        let found = SmemAtom::all().find(|atom| atom.to_string() == name);
        found.ok_or_else(|| AtomError::UnknownName { name: name.to_owned() })
    }
}
