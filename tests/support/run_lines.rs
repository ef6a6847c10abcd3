//! Lines `; run: sim grid=2 block=32x2 x=1,2,3 y=0*6 n=3` in filetests: a launch of the kernel
//! below.
//!
//! `grid`, `block` and `cluster` are one to three integers with `x` in between; missing ones are 1.
//! All other names are the kernel's parameters, and each must have a value: a literal for a scalar,
//! or the elements of a new buffer for a pointer. For a tensor map, `32x4/16x2/128B:` precedes the
//! elements: the extents of the tensor, which is dense, those of the box and, if wanted, the
//! swizzle, `nan`, and `steps` with element strides. Elements are literals with commas in between.
//! `1*4` is `1` four times, `0..4` is `0,1,2,3`, and an empty list is a buffer without elements.
//!
//! The result is the buffers that the kernel can write, then what it printed, then the assertions
//! that failed.

use tilewright::arch::{Fill, PixelBox, SwizzleMode, TensorMapDesc};
use tilewright::ir::KernelIr;
use tilewright::ir::op::Op;
use tilewright::ir::types::{Const, Scalar, Type};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options, Order, Output, RunError, run};

/// An argument, with memory for one run.
enum Argument {
    Scalar(Const),
    /// A buffer's bytes.
    Bytes(Vec<u8>),
    /// A tensor map, and the bytes of the buffer that contains the tensor.
    Map(Box<TensorMapDesc>, Vec<u8>),
}

/// A launch.
pub(crate) struct RunLine {
    grid: Grid,
    args: Vec<Argument>,
}

/// How many operations a block may execute. Every run in a filetest is small.
const FUEL: u64 = 1 << 20;

impl RunLine {
    /// Parses the line, without `; run: `.
    pub(crate) fn parse(line: &str, ir: &KernelIr) -> RunLine {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("sim"), "`; run: {line}` names no device that there is");
        let (mut grid, mut args) = (Grid::new([1; 3], [1; 3]), Vec::new());
        let mut params = ir.params.iter();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word}: no `=`"));
            match name {
                "grid" => grid.blocks = dim3(value),
                "block" => grid.threads = dim3(value),
                "cluster" => grid = grid.cluster(dim3(value)),
                _ => {
                    let param = params.next().unwrap_or_else(|| panic!("{name}: no parameter"));
                    assert_eq!(param.name, name, "parameters are given in order");
                    args.push(argument(value, ir.type_of(param.value)));
                }
            }
        }
        assert!(params.next().is_none(), "`; run: {line}` does not give all parameters");
        RunLine { grid, args }
    }

    /// Launches the kernel with two warp orders, checks that the results are equal, and returns
    /// the buffers that the kernel can write.
    pub(crate) fn run(&self, ir: &KernelIr) -> Result<String, RunError> {
        let [first, second] = [Order::RoundRobin, Order::Random { seed: 1 }].map(|order| {
            let buffers: Vec<GlobalBuffer> = self.args.iter().map(buffer).collect();
            let args: Vec<KernelArg<'_>> = self
                .args
                .iter()
                .zip(&buffers)
                .map(|(arg, buffer)| match arg {
                    Argument::Scalar(scalar) => KernelArg::Scalar(*scalar),
                    Argument::Bytes(_) => KernelArg::Buffer(buffer),
                    Argument::Map(map, _) => KernelArg::TensorMap(map, buffer),
                })
                .collect();
            let output = Output::captured();
            // The first run's fault is the report. A kernel without a fault also runs under race
            // detection.
            let race = order != Order::RoundRobin;
            let options =
                Options::default().fuel(FUEL).order(order).race(race).output(output.clone());
            let mut failed = String::new();
            match run(ir, self.grid, &args, &options) {
                Ok(_) => {}
                Err(RunError::AssertFailed(failures)) => {
                    for failure in failures.failures {
                        let ([x, ..], [thread, ..]) = (failure.block, failure.thread);
                        failed += &format!(" failed({x},{thread})={:?}", failure.message);
                    }
                }
                Err(error) => return Err(error),
            }
            let printed = output.take();
            let printed =
                if printed.is_empty() { printed } else { format!(" printed={printed:?}") };
            let all = format!("{}{printed}{failed}", written(ir, &buffers));
            Ok(all.trim_start().to_owned())
        });
        match (&first, &second) {
            (Ok(_), _) | (_, Ok(_)) => assert_eq!(first, second, "warps in another order"),
            (Err(_), Err(_)) => {}
        }
        first
    }
}

fn dim3(text: &str) -> [u32; 3] {
    let mut all = [1; 3];
    for (i, number) in text.split('x').enumerate() {
        all[i] = number.parse().unwrap_or_else(|_| panic!("{text}: no size"));
    }
    all
}

fn argument(text: &str, ty: Type) -> Argument {
    match ty {
        Type::Scalar(scalar) => Argument::Scalar(literals(&[text.to_owned()], scalar)[0]),
        Type::Vector(_) => panic!("{text}: no argument of this test"),
        Type::TensorMap { elem, .. } => {
            let (map, elements) =
                text.split_once(':').unwrap_or_else(|| panic!("{text}: no `:` after the map"));
            let ty =
                Type::Pointer { space: tilewright::ir::types::Space::Global, elem, mutable: true };
            match argument(elements, ty) {
                Argument::Bytes(bytes) => Argument::Map(Box::new(tensor_map(map, elem)), bytes),
                other => other,
            }
        }
        Type::Pointer { elem, .. } => {
            let mut elements = Vec::new();
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let number =
                    |text: &str| text.parse().unwrap_or_else(|_| panic!("{text}: no number"));
                if let Some((lo, hi)) = part.split_once("..") {
                    elements.extend((number(lo)..number(hi)).map(|i: i64| i.to_string()));
                } else if let Some((literal, count)) = part.split_once('*') {
                    elements.extend((0..number(count)).map(|_| literal.to_owned()));
                } else {
                    elements.push(part.to_owned());
                }
            }
            let size = elem.size_bytes() as usize;
            let bytes = literals(&elements, elem)
                .into_iter()
                .flat_map(|element| element.bits().to_le_bytes().into_iter().take(size));
            Argument::Bytes(bytes.collect())
        }
    }
}

/// Parses a dense tensor's map: `dims/box`, then words.
fn tensor_map(text: &str, elem: Scalar) -> TensorMapDesc {
    let numbers = |text: &str| -> Vec<u32> {
        let number = |n: &str| n.parse().unwrap_or_else(|_| panic!("{text}: no number"));
        text.split('x').map(number).collect()
    };
    let mut words = text.split('/');
    let dims = numbers(words.next().unwrap_or_default());
    let extents = numbers(words.next().unwrap_or_default());
    let (mut strides, mut stride) = (Vec::new(), u64::from(elem.size_bytes()));
    let dims: Vec<u64> = dims.into_iter().map(u64::from).collect();
    for extent in &dims {
        stride *= extent;
        strides.push(stride);
    }
    strides.pop();
    let mut words = words.peekable();
    let made = match words.next_if(|word| word.starts_with("im2col")) {
        None => TensorMapDesc::new(elem, &dims, &strides, &extents),
        Some(word) => {
            let corners = |text: &str| -> Vec<i32> {
                text.split('x').map(|n| n.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
            };
            let (lower, upper) = word["im2col".len()..].split_once("to").expect("two corners");
            let (lower, upper) = (corners(lower), corners(upper));
            let pixels = PixelBox { lower, upper, channels: extents[0], pixels: extents[1] };
            TensorMapDesc::im2col(elem, &dims, &strides, pixels)
        }
    };
    let mut map = made.unwrap_or_else(|error| panic!("{text}: {error}"));
    for word in words {
        let next = if let Some(steps) = word.strip_prefix("steps") {
            map.with_element_strides(&numbers(steps))
        } else if word == "nan" {
            map.with_fill(Fill::Nan)
        } else {
            let mode = SwizzleMode::ALL.into_iter().find(|mode| mode.to_string() == word);
            map.with_swizzle(mode.unwrap_or_else(|| panic!("{word}: no word of a tensor map")))
        };
        map = next.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    map
}

/// Parses literals of the text form.
fn literals(texts: &[String], scalar: Scalar) -> Vec<Const> {
    let line = |(i, text): (usize, &String)| format!("%{i} = const {text} : {scalar}\n");
    let lines: String = texts.iter().enumerate().map(line).collect();
    let text = format!("kernel @k target sm_80 () {{\n{lines}return\n}}");
    let ir: KernelIr = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let constant = |(_, data): (_, &tilewright::ir::OpData)| match data.op {
        Op::Const(constant) => Some(constant),
        _ => None,
    };
    ir.ops.iter().filter_map(constant).collect()
}

fn buffer(arg: &Argument) -> GlobalBuffer {
    match arg {
        Argument::Scalar(_) => GlobalBuffer::zeros(0),
        Argument::Bytes(bytes) | Argument::Map(_, bytes) => GlobalBuffer::from_slice(bytes),
    }
}

/// Returns the elements of the buffers that the kernel can write.
fn written(ir: &KernelIr, buffers: &[GlobalBuffer]) -> String {
    let mut all = Vec::new();
    for (param, buffer) in ir.params.iter().zip(buffers) {
        let (Type::Pointer { elem, mutable: true, .. }
        | Type::TensorMap { elem, mutable: true, .. }) = ir.type_of(param.value)
        else {
            continue;
        };
        let bytes = buffer.to_vec::<u8>();
        let elements = bytes.chunks_exact(elem.size_bytes() as usize).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            Const::new(elem, u64::from_le_bytes(word)).to_string()
        });
        let mut parts: Vec<(String, usize)> = Vec::new();
        for element in elements {
            match parts.last_mut() {
                Some((last, count)) if *last == element => *count += 1,
                _ => parts.push((element, 1)),
            }
        }
        let parts = parts.into_iter().map(|(element, count)| match count {
            1 => element,
            _ => format!("{element}*{count}"),
        });
        all.push(format!("{}={}", param.name, parts.collect::<Vec<_>>().join(",")));
    }
    all.join(" ")
}
