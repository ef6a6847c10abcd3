//! The operations on swizzled layouts.

use tilewright::layout::{ComposedLayout, Layout, LinearLayout};

use super::bytes::Bytes;
use super::numbers::{Operand as _, commuting, held};
use super::oracle;

pub(crate) fn step(bytes: &mut Bytes<'_>, a: &Layout, b: &Layout) -> Option<Layout> {
    let c = bytes.composed(a.clone());
    let text = c.to_string();
    if !c.has_symbols() {
        match text.parse::<ComposedLayout>() {
            Ok(read) => assert_eq!(read, c, "{text}"),
            Err(e) => panic!("{text}: {e}"),
        }
    }
    let small = c.is_small() && b.is_small();
    match bytes.byte() % 16 {
        0 => {
            let r = commuting(bytes, "composition", &c, b, |c, b| c.composition(b))?;
            if small {
                let check = oracle::check_composition(&c, b, &r);
                held(check, || format!("{c} o {b} = {r}"));
            }
            None
        }
        1 => {
            let coord = bytes.coord(a.rank());
            commuting(bytes, "slice", &c, &coord, |c, at| c.slice_and_offset(at))?;
            None
        }
        2 => {
            let r = c.right_inverse().ok()?;
            r.apply(bytes.number()).ok();
            None
        }
        3 => {
            let r = c.left_inverse().ok()?;
            for env in &bytes.envs {
                if let (Ok(c), Ok(r)) = (c.eval(env), r.eval(env))
                    && c.is_small()
                {
                    let check = oracle::check_left_inverse(&c, &r);
                    held(check, || format!("left_inverse {c} = {r}"));
                }
            }
            None
        }
        4 => {
            let n = bytes.number();
            commuting(bytes, "upcast", &c, &(), |c, ()| c.upcast(n))?;
            None
        }
        5 => {
            let n = bytes.number();
            commuting(bytes, "downcast", &c, &(), |c, ()| c.downcast(n))?;
            None
        }
        6 => {
            let (old, new) = (bytes.number(), bytes.number());
            commuting(bytes, "recast_layout", &c, &(), |c, ()| c.recast_layout(old, new))?;
            None
        }
        7 => {
            let target = bytes.tuple();
            commuting(bytes, "complement", &c, &target, |c, target| c.complement(target))
        }
        8 => {
            let coord = bytes.tuple();
            commuting(bytes, "domain_offset", &c, &coord, |c, coord| c.domain_offset(coord))?;
            None
        }
        9 => {
            let swizzle = bytes.swizzle();
            commuting(bytes, "o swizzle", b, &(), |b, ()| b.compose_swizzle(swizzle));
            commuting(bytes, "swizzle o", &c, &(), |c, ()| swizzle.compose_composed(c));
            commuting(bytes, "composition", b, &c, |b, c| b.compose_composed(c));
            None
        }
        10 => {
            c.max_alignment().ok();
            commuting(bytes, "cosize", &c, &(), |c, ()| c.cosize());
            c.max_common_vector(&b.into()).ok();
            c.max_common_layout(&b.into()).ok()
        }
        11 => {
            let (tiler, coord) = (bytes.tiler(), bytes.coord(2));
            commuting(bytes, "zipped_divide", &c, &tiler, |c, t| c.zipped_divide(t));
            c.local_tile(&tiler, &coord).ok();
            None
        }
        12 => {
            commuting(bytes, "logical_product", b, &c, |b, c| b.logical_product_composed(c));
            None
        }
        13 => {
            let coord = bytes.tuple();
            commuting(bytes, "apply", &c, &coord, |c, at| c.apply(at));
            None
        }
        14 => {
            let matrix = LinearLayout::from_composed(&c).ok()?;
            matrix.inverse().ok();
            matrix.to_layout().ok()
        }
        _ => c.nullspace().ok(),
    }
}
