//! Computes the crate's own answer to each row of the vector files: maps operation names to
//! functions.

use tilewright::layout::{
    ComposedLayout, Int, IntTuple, Layout, Swizzle, Tuple, compact_col_major, compact_row_major,
    crd2crd, crd2idx, domain_distribute, idx2crd, idx2crd_with,
};
use tilewright::tensor::atom::{CopyAtom, MmaAtom, Operand, SmemAtom, TiledMma};

use super::{Answer, Args, Failure, Out};

fn bool_out(b: bool) -> Out {
    Out::Text(b.to_string())
}

fn int_out(i: Int) -> Answer {
    Ok(Out::Tuple(Tuple::leaf(i)))
}

fn layout_out(l: Layout) -> Answer {
    Ok(Out::Layout(l.into()))
}

/// Returns the result of `op`.
pub(super) fn run(op: &str, a: &Args<'_>) -> Answer {
    if let Some(base) = op.strip_suffix("_mode") {
        let path = a.list(1)?;
        let l = a.layout(0)?.get(&path)?;
        return measure(base, &l);
    }
    match op {
        "size" | "rank" | "depth" | "cosize" | "coshape" if a.is_layout(0) => {
            measure(op, &a.layout(0)?)
        }
        "size" | "product" => int_out(a.shape(0)?.product()?),
        "rank" => int_out(a.shape(0)?.rank().into()),
        "depth" => int_out(a.shape(0)?.depth().into()),
        "product_each" => Ok(Out::Tuple(a.shape(0)?.product_each()?)),
        "sum" => int_out(a.shape(0)?.sum()?),
        "max" | "min" | "gcd" | "add" | "sub" | "mul" | "floordiv" | "mod" => scalar(op, a),
        "elem_scale" => Ok(Out::Tuple(a.shape(0)?.elem_scale(&a.shape(1)?)?)),
        "product_like" => Ok(Out::Tuple(a.shape(0)?.product_like(&a.shape(1)?)?)),
        "ceil_div" => Ok(Out::Tuple(a.shape(0)?.ceil_div_by(&a.tiler(1)?)?)),
        "shape_div" => Ok(Out::Tuple(a.shape(0)?.shape_div(&a.shape(1)?)?)),
        "round_up" => Ok(Out::Tuple(a.shape(0)?.round_up(&a.shape(1)?)?)),
        "inner_product" => int_out(a.shape(0)?.inner_product(&a.shape(1)?)?),
        "congruent" | "weakly_congruent" | "compatible" | "evenly_divides" | "elem_less"
        | "elem_leq" | "elem_gtr" | "elem_geq" | "lex_less" | "lex_leq" | "lex_gtr" | "lex_geq"
        | "colex_less" | "colex_leq" | "colex_gtr" | "colex_geq" => compare(op, a),
        "compact_col_major" | "compact_row_major" => {
            let start = if a.len() > 1 { a.shape(1)? } else { 1.into() };
            let f = if op == "compact_col_major" { compact_col_major } else { compact_row_major };
            Ok(Out::Tuple(f(&a.shape(0)?, &start)?))
        }
        "compact_order" => {
            let l = Layout::ordered(&a.shape(0)?, &a.shape(1)?)?;
            Ok(Out::Strides(l.stride().to_owned()))
        }
        "make_ordered_layout" => layout_out(Layout::ordered(&a.shape(0)?, &a.shape(1)?)?),
        "make_layout" => {
            if a.len() > 1 {
                let modes = (0..a.len()).map(|i| a.plain(i)).collect::<Result<Vec<_>, _>>()?;
                return layout_out(Layout::concat(&modes)?);
            }
            layout_out(Layout::compact(a.shape(0)?))
        }
        "make_identity_layout" => layout_out(Layout::identity(a.shape(0)?)?),
        "make_basis_like" => Ok(Out::Strides(Layout::identity(a.shape(0)?)?.stride().to_owned())),
        "make_layout_like" => layout_out(a.layout(0)?.layout_like()?),
        "make_fragment_like" => layout_out(a.layout(0)?.fragment_like()?),
        "domain_distribute" => {
            let n = a.shape(1)?.product()?;
            layout_out(domain_distribute(&a.shape(0)?, &n)?)
        }
        "crd2idx" if a.is_layout(1) => {
            let c = a.coord(0)?.to_ints("crd2idx")?;
            Ok(Out::Tuple(a.layout(1)?.apply(&c)?))
        }
        "crd2idx" => int_out(crd2idx(&a.coord(0)?.to_ints("crd2idx")?, &a.shape(1)?)?),
        "idx2crd" => idx2crd_op(a),
        "crd2crd" => Ok(Out::Tuple(crd2crd(&a.shape(0)?, &a.shape(1)?, &a.shape(2)?)?)),
        "swizzle_apply" => int_out(a.parse::<Swizzle>(0)?.apply(a.number(1)?).into()),
        "make_swizzle" => {
            let mask = |i| a.number(i).map(i64::unsigned_abs);
            Ok(Out::Text(Swizzle::from_masks(mask(0)?, mask(1)?)?.to_string()))
        }
        "ratio_mul" => Ok(Out::Text(a.ratio(0)?.mul(a.ratio(1)?)?.to_string())),
        "ratio_add" => Ok(Out::Text(a.ratio(0)?.add(a.ratio(1)?)?.to_string())),
        "ratio_div" => Ok(Out::Text(a.ratio(0)?.div(a.ratio(1)?)?.to_string())),
        "ratio_gcd" => Ok(Out::Text(a.ratio(0)?.gcd(a.ratio(1)?)?.to_string())),
        "ratio_lt" => Ok(bool_out(a.ratio(0)? < a.ratio(1)?)),
        "ratio_eq" => Ok(bool_out(a.ratio(0)? == a.ratio(1)?)),
        "eval" => eval(&a.layout(0)?),
        "mma_atom" => mma_atom(a),
        "copy_atom" => copy_atom(a),
        "tiled_mma" => tiled_mma(a),
        "smem_atom" => smem_atom(a),
        "flatten" | "unflatten" | "group" | "take" | "select" | "append" | "prepend"
        | "replace" | "zip"
            if !a.is_layout(0) =>
        {
            rearrange_tuple(op, a)
        }
        _ => layout_op(op, a),
    }
}

fn measure(op: &str, l: &ComposedLayout) -> Answer {
    match op {
        "size" => int_out(l.size()?),
        "rank" => int_out(l.shape()?.rank().into()),
        "depth" => int_out(l.shape()?.depth().into()),
        "cosize" => int_out(l.cosize()?),
        "coshape" => Ok(Out::Tuple(l.outer_layout()?.coshape()?)),
        _ => Err(Failure::Other(format!("no op {op}_mode"))),
    }
}

fn scalar(op: &str, a: &Args<'_>) -> Answer {
    if a.len() == 1 {
        let t = a.shape(0)?;
        return int_out(match op {
            "max" => t.max()?,
            "min" => t.min()?,
            _ => t.gcd()?,
        });
    }
    let (x, y) = (a.shape(0)?, a.shape(1)?);
    let (x, y) = (x.to_int()?, y.to_int()?);
    int_out(match op {
        "add" => x.add(y)?,
        "sub" => x.sub(y)?,
        "mul" => x.mul(y)?,
        "floordiv" => x.floor_div(y)?,
        "mod" => x.modulo(y)?,
        "max" => x.max(y)?,
        "min" => x.min(y)?,
        _ => x.gcd(y)?,
    })
}

fn compare(op: &str, a: &Args<'_>) -> Answer {
    let x = a.shape(0)?;
    if op == "evenly_divides" {
        return Ok(bool_out(x.evenly_divides(&a.tiler(1)?)?));
    }
    let y = a.shape(1)?;
    let holds = match op {
        "congruent" => x.congruent(&y),
        "weakly_congruent" => x.weakly_congruent(&y),
        "compatible" => x.compatible(&y)?,
        "elem_less" => x.elem_less(&y)?,
        "elem_leq" => x.elem_leq(&y)?,
        "elem_gtr" => x.elem_gtr(&y)?,
        "elem_geq" => x.elem_geq(&y)?,
        "lex_less" => x.lex_less(&y)?,
        "lex_leq" => !y.lex_less(&x)?,
        "lex_gtr" => y.lex_less(&x)?,
        "lex_geq" => !x.lex_less(&y)?,
        "colex_leq" => !y.colex_less(&x)?,
        "colex_gtr" => y.colex_less(&x)?,
        "colex_geq" => !x.colex_less(&y)?,
        _ => x.colex_less(&y)?,
    };
    // A run-time boolean prints as an integer.
    Ok(if a.row.dynamic.is_some() {
        Out::Text(u8::from(holds).to_string())
    } else {
        bool_out(holds)
    })
}

fn idx2crd_op(a: &Args<'_>) -> Answer {
    let (index, shape) = (a.shape(0)?, a.shape(1)?);
    if a.len() < 3 {
        return Ok(Out::Tuple(idx2crd(&index, &shape)?));
    }
    let stride: IntTuple = a.parse(2)?;
    let stride = if stride.is_leaf() && !shape.is_leaf() {
        compact_col_major(&shape, &stride)?
    } else {
        stride
    };
    Ok(Out::Tuple(idx2crd_with(&index, &Layout::new(&shape, &stride)?)?))
}

fn eval(l: &ComposedLayout) -> Answer {
    let size = l.size()?.to_static()?;
    let values =
        (0..size).map(|i| l.apply(i).map(|v| v.to_string())).collect::<Result<Vec<_>, _>>()?;
    Ok(Out::Text(values.join(" ")))
}

fn rearrange_tuple(op: &str, a: &Args<'_>) -> Answer {
    let t = a.shape(0)?;
    Ok(Out::Tuple(match op {
        "flatten" => t.flatten()?,
        "unflatten" => t.unflatten(&a.shape(1)?)?,
        "group" => t.group(a.index(1)?, a.index(2)?)?,
        "take" => t.take(a.index(1)?, a.index(2)?)?,
        "select" => t.select(&a.list(1)?)?,
        "append" if a.len() > 2 => t.append_to(a.index(2)?, &a.shape(1)?)?,
        "append" => t.append(&a.shape(1)?)?,
        "prepend" if a.len() > 2 => t.prepend_to(a.index(2)?, &a.shape(1)?)?,
        "prepend" => t.prepend(&a.shape(1)?)?,
        "replace" => t.replace(a.index(1)?, &a.shape(2)?)?,
        _ => t.zip(&a.shape(1)?)?,
    }))
}

fn composition(a: &Args<'_>) -> Answer {
    if a.is_swizzle(0) {
        let s: Swizzle = a.parse(0)?;
        if a.is_swizzle(1) {
            return Ok(Out::Text(s.compose(a.parse(1)?)?.to_string()));
        }
        return Ok(Out::Layout(s.compose_composed(&a.layout(1)?)?));
    }
    let left = a.layout(0)?;
    if a.is_swizzle(1) {
        return Ok(Out::Layout(a.plain(0)?.compose_swizzle(a.parse(1)?)?));
    }
    if a.text(1)?.starts_with('S') {
        return Ok(Out::Layout(left.compose_composed(&a.layout(1)?)?));
    }
    Ok(Out::Layout(left.composition(&a.tiler(1)?)?))
}

fn layout_op(op: &str, a: &Args<'_>) -> Answer {
    if matches!(op, "slice" | "dice") && !a.is_layout(1) {
        let (c, t) = (a.coord(0)?, a.shape(1)?);
        return Ok(Out::Tuple(if op == "slice" { t.slice(&c)? } else { t.dice(&c)? }));
    }
    match op {
        "composition" => return composition(a),
        "upcast" | "downcast" | "recast_layout" if a.is_swizzle(0) => {
            let s: Swizzle = a.parse(0)?;
            return Ok(Out::Text(
                match op {
                    "upcast" => s.upcast(a.number(1)?)?,
                    "downcast" => s.downcast(a.number(1)?)?,
                    _ => s.recast(a.number(1)?, a.number(2)?)?,
                }
                .to_string(),
            ));
        }
        "slice" => return Ok(Out::Layout(a.layout(1)?.slice(&a.coord(0)?)?)),
        "dice" => return layout_out(a.layout(1)?.outer_layout()?.dice(&a.coord(0)?)?),
        "slice_and_offset" => {
            let (l, o) = a.layout(1)?.slice_and_offset(&a.coord(0)?)?;
            return Ok(Out::Pair(l, o));
        }
        "domain_offset" => {
            let (l, o) = a.layout(1)?.domain_offset(&a.coord(0)?.to_ints("domain_offset")?)?;
            return Ok(Out::Pair(l, o));
        }
        "logical_product" | "zipped_product" if a.text(1)?.starts_with("S<") => {
            return Ok(Out::Layout(a.plain(0)?.logical_product_composed(&a.layout(1)?)?));
        }
        _ => {}
    }
    let l = a.layout(0)?;
    let out = match op {
        "coalesce" if a.len() > 1 => l.coalesce_by(&a.shape(1)?)?,
        "coalesce" => l.coalesce()?,
        "filter" if a.len() > 1 => l.filter_by(&a.shape(1)?)?,
        "filter" => l.filter()?,
        "filter_zeros" if a.len() > 1 => a.plain(0)?.filter_zeros_by(&a.shape(1)?)?.into(),
        "filter_zeros" => a.plain(0)?.filter_zeros().into(),
        "flatten" => l.flatten()?,
        "unflatten" => a.plain(0)?.unflatten(&a.shape(1)?)?.into(),
        "group" => l.group(a.index(1)?, a.index(2)?)?,
        "take" => l.take(a.index(1)?, a.index(2)?)?,
        "select" => l.select(&a.list(1)?)?,
        "get" => l.get(&a.list(1)?)?,
        "append" if a.len() > 2 => l.append_to(a.index(2)?, &a.plain(1)?)?,
        "append" => l.append(&a.plain(1)?)?,
        "prepend" if a.len() > 2 => l.prepend_to(a.index(2)?, &a.plain(1)?)?,
        "prepend" => l.prepend(&a.plain(1)?)?,
        "replace" => a.plain(0)?.replace(a.index(1)?, &a.plain(2)?)?.into(),
        "zip" => a.plain(0)?.zip(&a.plain(1)?)?.into(),
        "complement" if a.len() > 1 => l.complement(&a.shape(1)?)?.into(),
        "complement" => match l.as_normal() {
            Some(l) => l.complement_inner()?.into(),
            None => l.complement(&Tuple::leaf(l.cosize()?))?.into(),
        },
        "right_inverse" if l.is_normal() => a.plain(0)?.right_inverse()?.into(),
        "right_inverse" => l.right_inverse()?,
        "left_inverse" if l.is_normal() => a.plain(0)?.left_inverse()?.into(),
        "left_inverse" => l.left_inverse()?,
        "nullspace" => l.nullspace()?.into(),
        "max_alignment" => return int_out(l.max_alignment()?),
        "max_common_layout" => l.max_common_layout(&a.layout(1)?)?.into(),
        "max_common_vector" => return int_out(l.max_common_vector(&a.layout(1)?)?),
        "logical_divide" => l.logical_divide(&a.tiler(1)?)?,
        "zipped_divide" => l.zipped_divide(&a.tiler(1)?)?,
        "tiled_divide" => l.tiled_divide(&a.tiler(1)?)?,
        "flat_divide" => l.flat_divide(&a.tiler(1)?)?,
        "logical_product" => l.logical_product(&a.tiler(1)?)?,
        "zipped_product" => l.zipped_product(&a.tiler(1)?)?,
        "tiled_product" => l.tiled_product(&a.tiler(1)?)?,
        "flat_product" => l.flat_product(&a.tiler(1)?)?,
        "blocked_product" => l.blocked_product(&a.plain(1)?)?,
        "raked_product" => l.raked_product(&a.plain(1)?)?,
        "tile_to_shape" => {
            let order = if a.len() > 2 { Some(a.shape(2)?) } else { None };
            l.tile_to_shape(&a.shape(1)?, order.as_ref())?
        }
        "upcast" => l.upcast(a.number(1)?)?,
        "downcast" => l.downcast(a.number(1)?)?,
        "recast_layout" => l.recast_layout(a.number(1)?, a.number(2)?)?,
        _ => return Err(Failure::Other(format!("no op {op}"))),
    };
    Ok(Out::Layout(out))
}

fn mma_atom(a: &Args<'_>) -> Answer {
    let atom: MmaAtom = a.text(0)?.parse()?;
    let [m, n, k] = atom.op().shape_mnk();
    Ok(Out::Object(vec![
        ("Shape_MNK", format!("({m},{n},{k})")),
        ("ThrID", atom.thr_id().to_string()),
        ("ALayout", atom.layout_a_tv().to_string()),
        ("BLayout", atom.layout_b_tv().to_string()),
        ("CLayout", atom.layout_c_tv().to_string()),
    ]))
}

fn copy_atom(a: &Args<'_>) -> Answer {
    let atom: CopyAtom = a.text(0)?.parse()?;
    Ok(Out::Object(vec![
        ("ThrID", atom.thr_id().to_string()),
        ("SrcLayout", atom.layout_src_tv().to_string()),
        ("DstLayout", atom.layout_dst_tv().to_string()),
        ("RefLayout", atom.layout_ref_tv().to_string()),
    ]))
}

fn tiled_mma(a: &Args<'_>) -> Answer {
    // Some tiles cut an atom, which CuTe accepts.
    let mma = TiledMma::unchecked(a.text(0)?.parse()?, &a.plain(1)?, a.tiler(2)?)?;
    let [m, n, k] = [mma.tile_size_mnk(0)?, mma.tile_size_mnk(1)?, mma.tile_size_mnk(2)?];
    let of = |operand, matrix| mma.thrfrg(operand, &matrix).map(|l| l.to_string());
    Ok(Out::Object(vec![
        ("ThrLayoutVMNK", mma.thr_layout_vmnk().to_string()),
        ("A_TV", mma.layout_a_tv()?.to_string()),
        ("B_TV", mma.layout_b_tv()?.to_string()),
        ("C_TV", mma.layout_c_tv()?.to_string()),
        ("tile_size_mnk", format!("({m},{n},{k})")),
        ("thrfrg_C_128x128", of(Operand::C, Layout::compact((128, 128)))?),
        ("thrfrg_A_128x64", of(Operand::A, Layout::row_major((128, 64)))?),
        ("thrfrg_B_128x64", of(Operand::B, Layout::row_major((128, 64)))?),
    ]))
}

fn smem_atom(a: &Args<'_>) -> Answer {
    let bits = u32::try_from(a.number(1)?).map_err(|e| Failure::Other(e.to_string()))?;
    let atom: SmemAtom = a.text(0)?.parse()?;
    let tile = atom.position_independent(bits)?;
    let repeated = |shape: &str, order: Option<&str>| -> Result<String, Failure> {
        let order: Option<IntTuple> = order.map(str::parse).transpose()?;
        Ok(tile.tile_to_shape(&shape.parse()?, order.as_ref())?.to_string())
    };
    Ok(Out::Object(vec![
        ("position_independent", tile.to_string()),
        ("swizzle", atom.swizzle().to_string()),
        ("layout", atom.layout(bits)?.to_string()),
        ("tile_1024x1024", repeated("(1024,1024)", None)?),
        ("tile_1024x1024_order_1_0", repeated("(1024,1024)", Some("(1,0)"))?),
        ("tile_1024x1024x3", repeated("(1024,1024,3)", None)?),
    ]))
}
