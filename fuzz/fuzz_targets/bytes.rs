//! Operands from bytes. Every input gives operands; what is missing at the end is 0.

use tilewright::layout::{
    Builder, ComposedLayout, Coord, Env, Int, IntTuple, Layout, LayoutBuilder, ScaledBasis, Slot,
    Swizzle, Tiler, TilerLeaf, Tuple,
};

/// The unread rest of the input.
pub(crate) struct Bytes<'a> {
    data: &'a [u8],
    /// Two environments, each with a value for every symbol that has been made.
    pub(crate) envs: [Env; 2],
    symbols: Vec<Int>,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, envs: Default::default(), symbols: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        first
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// A number: most are small, some negative, some at the ends of the range.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            b @ 0..=15 => i64::from(b),
            b @ 16..=31 => 1 << (b - 16),
            b @ 32..=47 => 3 << (b - 32),
            b @ 48..=239 => i64::from(b - 48) % 24 + 1,
            240 => 0,
            241 => -1,
            242 => -i64::from(self.byte()),
            243 => i64::MAX,
            244 => i64::MIN,
            245 => i64::MAX - i64::from(self.byte()),
            246 => i64::MIN + i64::from(self.byte()),
            247 => 1 << (self.byte() % 63),
            248 => (1 << 31) - 1,
            249 => 1 << 32,
            _ => i64::from(u16::from_le_bytes([self.byte(), self.byte()])),
        }
    }

    /// A number, a symbol of known values and a divisor of them, or a symbol that was made before.
    pub(crate) fn int(&mut self, symbolic: bool) -> Int {
        let value = self.number();
        if !symbolic {
            return value.into();
        }
        let kind = self.byte();
        if kind % 3 == 1 && kind & 64 != 0 && !self.symbols.is_empty() {
            return self.symbols[usize::from(kind >> 3) % self.symbols.len()].clone();
        }
        if kind % 3 != 0 || !(1..=1 << 20).contains(&value) {
            return value.into();
        }
        let wanted = i64::from(self.byte()) + 1;
        let divisor = (1..=wanted).rev().find(|d| value % d == 0).unwrap_or(1);
        let head = self.byte();
        // The second environment has another multiple of the divisor, also below the first value.
        let bounded = head % 4 == 0;
        let most = if bounded { value / divisor } else { 8 };
        let second = divisor * (1 + i64::from(head >> 2) % most);
        let name = format!("n{}", self.symbols.len());
        for (env, value) in self.envs.iter_mut().zip([value, second]) {
            *env = std::mem::take(env).with(&name, value);
        }
        let symbol = Int::symbol(&name).divisible_by(divisor);
        let symbol = match head % 4 {
            0 => symbol.assume(divisor, 1, value).unwrap_or(symbol),
            1 => symbol.assume(divisor, 0, i64::MAX).unwrap_or(symbol),
            _ => symbol,
        };
        self.symbols.push(symbol.clone());
        symbol
    }

    fn stride(&mut self, kind: u8) -> ScaledBasis {
        let value = self.int(kind == 2);
        if kind == 3 && self.byte() % 4 != 0 {
            let path = [self.below(3), self.below(2)];
            let deep = 1 + self.below(2);
            return ScaledBasis::new(value.clone(), &path[..deep]).unwrap_or_else(|_| value.into());
        }
        value.into()
    }

    /// A layout of up to four leaves and depth 2: static (0, 1), symbolic (2) or into coordinates (3).
    pub(crate) fn layout(&mut self) -> Layout {
        let head = self.byte();
        let (leaves, kind, compact) = (1 + head % 4, (head >> 2) % 4, head & 16 != 0);
        if leaves == 1 && head & 32 != 0 {
            return Layout::leaf(self.int(kind == 2), self.stride(kind));
        }
        let mut out = LayoutBuilder::new();
        let mut depth = 0;
        out.open();
        for _ in 0..leaves {
            let wanted = self.byte() % 3;
            for _ in wanted..depth {
                out.close();
            }
            for _ in depth..wanted {
                out.open();
            }
            depth = wanted;
            out.push(self.int(kind == 2), self.stride(kind));
        }
        for _ in 0..=depth {
            out.close();
        }
        match out.finish() {
            Ok(layout) if compact => Layout::compact(layout.shape().to_owned()),
            Ok(layout) => layout,
            Err(_) => Layout::trivial(),
        }
    }

    pub(crate) fn tuple(&mut self) -> IntTuple {
        let head = self.byte();
        if head % 4 == 0 {
            return IntTuple::from(self.int(head & 4 != 0));
        }
        let mut items = Vec::new();
        for _ in 0..head % 4 {
            let item = IntTuple::from(self.int(head & 4 != 0));
            let nest = head & 8 != 0 && self.byte() % 3 == 0;
            let other = IntTuple::from(self.int(false));
            items.push(if nest {
                IntTuple::from_items([&item, &other]).unwrap_or(item)
            } else {
                item
            });
        }
        IntTuple::from_items(&items).unwrap_or_else(|_| IntTuple::from(1))
    }

    pub(crate) fn tiler(&mut self) -> Tiler {
        let head = self.byte();
        let leaf = |this: &mut Self| match this.byte() % 4 {
            0 => TilerLeaf::All,
            1 => this.layout().into(),
            _ => TilerLeaf::Int(this.int(head & 8 != 0)),
        };
        if head % 4 == 0 {
            return Tuple::leaf(leaf(self));
        }
        let mut out = Builder::new();
        out.open();
        for _ in 0..head % 4 {
            let next = leaf(self);
            out.push(next);
        }
        out.close();
        out.finish().unwrap_or_else(|_| Tuple::leaf(TilerLeaf::All))
    }

    /// A coordinate for the layout, of its rank or not.
    pub(crate) fn coord(&mut self, rank: usize) -> Coord {
        let head = self.byte();
        let rank = if head % 8 == 0 { self.below(4) } else { rank };
        let mut items: Vec<Coord> = Vec::new();
        for _ in 0..rank.min(6) {
            let all = self.byte() % 2 == 0;
            items.push(Tuple::leaf(if all {
                Slot::All
            } else {
                Slot::At(self.int(head & 16 != 0))
            }));
        }
        match (Coord::from_items(&items), items.pop()) {
            (_, Some(only)) if head & 32 != 0 => only,
            (Ok(coord), _) => coord,
            (_, only) => only.unwrap_or_else(|| Tuple::leaf(Slot::All)),
        }
    }

    pub(crate) fn swizzle(&mut self) -> Swizzle {
        let (bits, base) = (i64::from(self.byte() % 6), i64::from(self.byte() % 8));
        let shift = i64::from(self.byte() % 20) - 10;
        Swizzle::new(bits, base, shift).unwrap_or(Swizzle::identity())
    }

    pub(crate) fn composed(&mut self, layout: Layout) -> ComposedLayout {
        let swizzle = self.swizzle();
        let offset = if self.byte() % 3 == 0 { self.int(true) } else { Int::ZERO };
        ComposedLayout::new(swizzle, IntTuple::from(offset), layout.clone())
            .unwrap_or_else(|_| layout.into())
    }
}
