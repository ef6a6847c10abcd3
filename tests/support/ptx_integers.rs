//! Evaluates PTX's integer instructions, written from the PTX ISA (9.7.1, 9.7.6, 9.7.8, 9.7.9).

/// How a type interprets its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Signed,
    Unsigned,
    Bits,
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) kind: Kind,
    pub(super) bits: u32,
}

const U32: Type = Type { kind: Kind::Unsigned, bits: 32 };
const S32: Type = Type { kind: Kind::Signed, bits: 32 };

impl Type {
    /// Parses `s32`, `u8`, `b64`, `pred`.
    pub(super) fn parse(text: &str) -> Option<Type> {
        if text == "pred" {
            return Some(Type { kind: Kind::Bits, bits: 1 });
        }
        let kind = match text.as_bytes().first()? {
            b's' => Kind::Signed,
            b'u' => Kind::Unsigned,
            b'b' => Kind::Bits,
            _ => return None,
        };
        let bits = text[1..].parse().ok()?;
        matches!(bits, 8 | 16 | 32 | 64).then_some(Type { kind, bits })
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the integer in the low bits.
    fn number(self, bits: u64) -> i128 {
        let low = bits & self.mask();
        if self.kind == Kind::Signed && low >> (self.bits - 1) == 1 {
            return i128::from(low) - (1i128 << self.bits);
        }
        low.into()
    }

    /// Returns the low bits, extended to 64 as the type requires.
    pub(super) fn extend(self, bits: u64) -> u64 {
        self.number(bits) as u64
    }

    fn range(self) -> (i128, i128) {
        match self.kind {
            Kind::Signed => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            Kind::Unsigned | Kind::Bits => (0, (1i128 << self.bits) - 1),
        }
    }

    fn clamp(self, number: i128) -> u64 {
        let (min, max) = self.range();
        number.clamp(min, max) as u64
    }

    /// Returns the upper half of the product of two values of the type.
    fn high(self, a: i128, b: i128) -> i128 {
        if self.kind == Kind::Signed {
            return (a * b) >> self.bits;
        }
        ((a as u128).wrapping_mul(b as u128) >> self.bits) as i128
    }
}

fn compare(operator: &str, a: i128, b: i128) -> Option<bool> {
    Some(match operator {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        "ge" => a >= b,
        _ => return None,
    })
}

/// Evaluates the instruction with this name, split at the dots. Returns `None` if the name is
/// unknown. Bits above the result's width are meaningless.
pub(super) fn compute(name: &[&str], values: &[u64]) -> Option<u64> {
    let (first, last) = (*name.first()?, *name.last()?);
    let has = |modifier: &str| name.contains(&modifier);
    if let Some(bits) = packed(name, values) {
        return Some(bits);
    }
    if let Some(bits) = fields(name, values) {
        return Some(bits);
    }
    if first == "slct" {
        let float = f32::from_bits(values[2] as u32);
        let flushed = has("ftz") && float.is_subnormal();
        let first =
            if last == "f32" { flushed || float >= 0.0 } else { S32.number(values[2]) >= 0 };
        return Some(values[if first { 0 } else { 1 }]);
    }
    let ty = Type::parse(last)?;
    let number = |i: usize| values.get(i).map(|bits| ty.number(*bits));
    let wrapped = |number: i128| Some(number as u64);
    let (a, b, c) = (number(0)?, number(1).unwrap_or(0), number(2).unwrap_or(0));
    match first {
        "mov" => Some(values[0]),
        "add" if has("sat") => Some(ty.clamp(a + b)),
        "sub" if has("sat") => Some(ty.clamp(a - b)),
        "add" => wrapped(a + b),
        "sub" => wrapped(a - b),
        "mul" if has("hi") => wrapped(ty.high(a, b)),
        // `lo` and `wide`: the result is cut to the register.
        "mul" => Some((a as u128).wrapping_mul(b as u128) as u64),
        "mad" if has("hi") && has("sat") => Some(ty.clamp(ty.high(a, b) + c)),
        "mad" if has("hi") => wrapped(ty.high(a, b).wrapping_add(c)),
        "mad" if has("wide") => {
            let product = (a as u128).wrapping_mul(b as u128) as u64;
            Some(product.wrapping_add(values[2]))
        }
        "mad" => Some(((a as u128).wrapping_mul(b as u128) as u64).wrapping_add(c as u64)),
        "mul24" | "mad24" => mul24(name, ty, values),
        "div" => wrapped(a.checked_div(b)?),
        "rem" => wrapped(a.checked_rem(b)?),
        "min" | "max" => {
            let least = if has("relu") { 0 } else { i128::MIN };
            wrapped(if first == "min" { a.min(b) } else { a.max(b) }.max(least))
        }
        "neg" => wrapped(-a),
        "abs" => wrapped(a.abs()),
        "sad" => wrapped(c + (a - b).abs()),
        "and" => wrapped(a & b),
        "or" => wrapped(a | b),
        "xor" => wrapped(a ^ b),
        "not" => wrapped(!a),
        "cnot" => Some((a == 0).into()),
        "shl" => {
            Some(if values[1] as u32 >= ty.bits { 0 } else { values[0] << (values[1] as u32) })
        }
        "shr" => wrapped(a >> (values[1] as u32).min(ty.bits)),
        "setp" => Some(compare(name[1], a, b)?.into()),
        "selp" => Some(if values[2] & 1 == 1 { values[0] } else { values[1] }),
        "cvt" => {
            let (to, from) = (Type::parse(name[name.len() - 2])?, ty);
            let number = from.number(values[0]);
            Some(if has("sat") { to.clamp(number) } else { number as u64 })
        }
        _ => None,
    }
}

fn mul24(name: &[&str], ty: Type, values: &[u64]) -> Option<u64> {
    let short = Type { bits: 24, ..ty };
    let product = short.number(values[0]) * short.number(values[1]);
    let half = if name[1] == "hi" { product >> 16 } else { product };
    let half = ty.number(half as u64);
    match (name[0], name.contains(&"sat")) {
        ("mul24", _) => Some(half as u64),
        (_, false) => Some((half + ty.number(values[2])) as u64),
        (_, true) => Some(ty.clamp(half + ty.number(values[2]))),
    }
}

/// Evaluates instructions on several values in one register.
fn packed(name: &[&str], values: &[u64]) -> Option<u64> {
    let part = |bits: u64, ty: Type, i: u32| ty.number(bits >> (i * ty.bits));
    let last = *name.last()?;
    match name[0] {
        "add" | "min" | "max" if last.ends_with("x2") => {
            let ty = Type::parse(last.strip_suffix("x2")?)?;
            let least = if name.contains(&"relu") { 0 } else { i128::MIN };
            let halves = [0, 1].map(|i| {
                let (a, b) = (part(values[0], ty, i), part(values[1], ty, i));
                let result = match name[0] {
                    "add" => a + b,
                    "min" => a.min(b).max(least),
                    _ => a.max(b).max(least),
                };
                (result as u64 & ty.mask()) << (i * ty.bits)
            });
            Some(halves[0] | halves[1])
        }
        "dp4a" | "dp2a" => {
            let halves = name[0] == "dp2a";
            let [a, b] =
                [name[name.len() - 2], last].map(|text| Type::parse(text).map(|ty| ty.kind));
            let byte = |kind| Type { kind, bits: 8 };
            let (a, b) = (a?, b?);
            let skipped = if name[1] == "hi" { 2 } else { 0 };
            let products = (0..if halves { 2 } else { 4 }).map(|i| {
                let lhs = Type { kind: a, bits: if halves { 16 } else { 8 } };
                part(values[0], lhs, i) * part(values[1], byte(b), i + skipped)
            });
            Some((products.sum::<i128>() as u64).wrapping_add(values[2]))
        }
        "cvt" if name.get(1) == Some(&"pack") => {
            let ty = Type::parse(name[3])?;
            let [high, low] = [0, 1].map(|i| ty.clamp(S32.number(values[i])) & ty.mask());
            let above = values.get(2).map_or(0, |bits| bits << (2 * ty.bits));
            Some(above | high << ty.bits | low)
        }
        "prmt" => Some(permuted(last, values)),
        _ => None,
    }
}

/// `prmt`: the named modes are listed by their bytes, the highest first, for each selector.
fn permuted(mode: &str, values: &[u64]) -> u64 {
    let all = (values[1] & U32.mask()) << 32 | (values[0] & U32.mask());
    let choice = (values[2] & 3) as usize;
    let selector = match mode {
        "f4e" => [0x3210, 0x4321, 0x5432, 0x6543][choice],
        "b4e" => [0x5670, 0x6701, 0x7012, 0x0123][choice],
        "rc8" => [0x0000, 0x1111, 0x2222, 0x3333][choice],
        "ecl" => [0x3210, 0x3211, 0x3222, 0x3333][choice],
        "ecr" => [0x0000, 0x1110, 0x2210, 0x3210][choice],
        "rc16" => [0x1010, 0x3232, 0x1010, 0x3232][choice],
        _ => values[2],
    };
    let byte = |i: u64| {
        let nibble = selector >> (4 * i);
        let byte = all >> (8 * (nibble & 7)) & 0xff;
        let sign = if byte >> 7 == 1 { 0xff } else { 0 };
        if nibble & 8 == 0 { byte } else { sign }
    };
    (0..4).map(|i| byte(i) << (8 * i)).sum()
}

/// Evaluates bit-field instructions.
fn fields(name: &[&str], values: &[u64]) -> Option<u64> {
    let last = *name.last()?;
    let word = |i: usize| values[i] & U32.mask();
    let clamps = name.contains(&"clamp");
    if matches!(name[0], "lop3" | "shf" | "szext" | "bmsk" | "fns") {
        return match name[0] {
            "lop3" => Some((0..32).fold(0, |all, bit| {
                let [a, b, c] = [0, 1, 2].map(|i| word(i) >> bit & 1);
                all | (values[3] >> (4 * a + 2 * b + c) & 1) << bit
            })),
            "shf" => {
                let amount = if clamps { word(2).min(32) } else { word(2) & 31 };
                let both = word(1) << 32 | word(0);
                Some(if name[1] == "l" { (both << amount) >> 32 } else { both >> amount })
            }
            "szext" => {
                let (bits, too_large) = (word(1) & 31, word(1) >= 32 && clamps);
                let above = if too_large { 0 } else { U32.mask() << bits & U32.mask() };
                let signed = last == "s32" && bits > 0 && !too_large;
                let sign = signed && word(0) >> (bits - 1) & 1 == 1;
                Some(word(0) & !above | if sign { above } else { 0 })
            }
            "bmsk" => {
                let (start, count) = (word(0) & 31, word(1) & 31);
                let outside = clamps && word(0) >= 32;
                let from = if outside { 0 } else { U32.mask() << start };
                let to_end = start + count >= 32 || (clamps && (outside || word(1) >= 32));
                let behind = if to_end { 0 } else { U32.mask() << (start + count) };
                Some(from & !behind & U32.mask())
            }
            _ => Some(nth_bit(word(0), word(1), S32.number(values[2]))),
        };
    }
    if !matches!(name[0], "popc" | "clz" | "brev" | "bfind" | "bfe" | "bfi") {
        return None;
    }
    let ty = Type::parse(last)?;
    let bit = |bits: u64, i: u32| bits >> i & 1;
    let a = values[0] & ty.mask();
    let none = U32.mask();
    match name[0] {
        "popc" => Some(a.count_ones().into()),
        "clz" => Some(u64::from(a.leading_zeros()) - u64::from(64 - ty.bits)),
        "brev" => Some(a.reverse_bits() >> (64 - ty.bits)),
        "bfind" => {
            let negative = ty.kind == Kind::Signed && bit(a, ty.bits - 1) == 1;
            let searched = if negative { !a & ty.mask() } else { a };
            let Some(highest) = searched.checked_ilog2() else { return Some(none) };
            let amount = ty.bits - 1 - highest;
            Some(if name[1] == "shiftamt" { amount } else { highest }.into())
        }
        "bfe" => {
            let [start, count] = [1, 2].map(|i| (values[i] & 0xff) as u32);
            let last = (start + count).saturating_sub(1).min(ty.bits - 1);
            let filled = ty.kind == Kind::Signed && count > 0 && bit(a, last) == 1;
            Some((0..ty.bits).fold(0, |all, i| {
                let inside = i < count && start + i < ty.bits;
                all | if inside { bit(a, start + i) } else { filled.into() } << i
            }))
        }
        _ => {
            let [start, count] = [2, 3].map(|i| (values[i] & 0xff) as u32);
            let range = (0..count).take_while(|i| start + i < ty.bits);
            Some(
                range
                    .fold(values[1], |all, i| all & !(1 << (start + i)) | bit(a, i) << (start + i)),
            )
        }
    }
}

/// `fns`.
fn nth_bit(mask: u64, base: u64, offset: i128) -> u64 {
    let is_set = |at: i128| mask >> at & 1 == 1;
    let mut at = i128::from(base);
    if offset == 0 {
        return if base < 32 && is_set(at) { base } else { U32.mask() };
    }
    let mut left = offset.abs() - 1;
    while (0..32).contains(&at) {
        if is_set(at) {
            if left == 0 {
                return at as u64;
            }
            left -= 1;
        }
        at += offset.signum();
    }
    U32.mask()
}
