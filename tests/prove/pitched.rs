//! The law on random kernels whose threads share the tiles of a matrix: rows of any pitch, batches of
//! any stride, guards in the forms that kernels use, tile orders that divide by tile counts.
//!
//! Many launches pass sizes, pitches and strides that no program would pass: negative ones, some
//! whose products wrap, empty matrices, buffers that are too short by one element. Conditions have to
//! be sharp, too: a correct launch on buffers that are as short as possible fulfils all of them.

use tilewright::ir::Element;
use tilewright::prove::{LaunchValue, LaunchValues};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options};

use crate::law::{self, Shown, check, counts, number, verified};
use crate::support::rng::Rng;

/// Launches of each random kernel.
const LAUNCHES: usize = 8;

/// How blocks find their tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Along both axes of the grid.
    Grid,
    /// Row by row, then the matrices of a batch.
    AlongN,
    /// In strips of this many rows of tiles, back and forth.
    Strips(i64),
    /// A block goes through the tiles of its rows in a loop.
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// `row < rows & column < columns`.
    Both,
    /// `rows - row > 0`, and inside of it `columns - column > 0`.
    Left,
    /// A thread outside of the matrix has no columns.
    NoColumns,
    /// Whole vectors are counted.
    Vectors,
    RowOnly,
    ColumnOnly,
}

/// A kernel on an `i32` matrix with a thread tile of `tile` elements per block.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    tile: [i64; 2],
    vector: i64,
    order: Order,
    guard: Guard,
    /// Whether `cp.async` copies nothing outside, rather than a branch.
    is_async: bool,
    is_store: bool,
    is_batched: bool,
    /// Whether row, column and batch are added to the pointer one after the other.
    is_chained: bool,
    /// Whether the launch chooses the distance of tiles, and how many there are. Tiles may overlap.
    is_chosen: bool,
    /// What is wrong with the row and the column.
    wrong: [i64; 2],
}

impl Kernel {
    fn random(rng: &mut Rng) -> Kernel {
        let vector = *rng.pick(&[1, 1, 2, 4]);
        let order = *rng.pick(&[
            Order::Grid,
            Order::AlongN,
            Order::Strips(2),
            Order::Strips(3),
            Order::Loop,
        ]);
        let guards = [
            Guard::Both,
            Guard::Both,
            Guard::Left,
            Guard::NoColumns,
            Guard::Vectors,
            Guard::RowOnly,
            Guard::ColumnOnly,
        ];
        let is_wrong = rng.below(3) == 0;
        let mut wrong = || if is_wrong { *rng.pick(&[0, 0, 1, -1, 4]) } else { 0 };
        let wrong = [wrong(), wrong()];
        let guard = *rng.pick(&guards);
        Kernel {
            tile: [*rng.pick(&[1, 2, 3]), vector * *rng.pick(&[1, 2, 4])],
            vector,
            order,
            guard,
            is_async: rng.below(3) == 0,
            is_store: rng.below(2) == 0,
            is_batched: rng.below(2) == 0,
            is_chained: rng.below(2) == 0,
            // The prover does not see that a chosen distance is a number of whole vectors.
            is_chosen: rng.below(3) == 0 && guard != Guard::Vectors,
            wrong,
        }
    }

    fn threads(self) -> i64 {
        self.tile[0] * self.tile[1] / self.vector
    }

    /// Whether a launch with exact buffers and an exact grid accesses nothing else.
    fn is_correct(self) -> bool {
        self.wrong == [0, 0] && !matches!(self.guard, Guard::RowOnly | Guard::ColumnOnly)
    }

    fn text(self) -> String {
        let Kernel { tile: [high, wide], vector, .. } = self;
        let mut lines = Lines::default();
        let l = &mut lines;
        for value in [0, 1, 2, high, wide, vector, high - 1, wide - 1, wide / vector] {
            l.constant(value);
        }
        l.push("%t = sreg<tid.x> : i32");
        l.push("%bx = sreg<ctaid.x> : i32");
        l.push("%by = sreg<ctaid.y> : i32");
        l.push("%bz = sreg<ctaid.z> : i32");
        let per_row = l.constant(wide / vector);
        let part = [l.op("div", "t", &per_row), l.op("rem", "t", &per_row)];
        let vectors = l.constant(vector);
        let part = [part[0].clone(), l.op("mul", &part[1], &vectors)];
        let tiles = [("rows", high), ("columns", wide)].map(|(size, tile)| {
            if self.is_chosen {
                return format!("{size}_tiles");
            }
            let (rest, tile) = (l.constant(tile - 1), l.constant(tile));
            let sum = l.op("add", size, &rest);
            l.op("div", &sum, &tile)
        });
        let (zero, one) = (l.constant(0), l.constant(1));
        let mut ends = Vec::new();
        let matrix = l.op("mul", &tiles[0], &tiles[1]);
        let [row, column, batch] = match self.order {
            Order::Grid => ["by", "bx", "bz"].map(str::to_owned),
            Order::Loop => {
                l.push(&format!("for @tiles %c: i32 = %{zero} to %{} step %{one} {{", tiles[1]));
                ends.push("  continue @tiles\n  }".to_owned());
                ["bx", "c", "bz"].map(str::to_owned)
            }
            Order::AlongN => {
                let [batch, inside] = l.divide("bx", &matrix);
                let [row, column] = l.divide(&inside, &tiles[1]);
                [row, column, batch]
            }
            Order::Strips(height) => {
                let [batch, index] = l.divide("bx", &matrix);
                let height = l.constant(height);
                let width = l.op("mul", &tiles[1], &height);
                let [strip, inside] = l.divide(&index, &width);
                let first = l.op("mul", &strip, &height);
                let rest = l.op("sub", &tiles[0], &first);
                let height = l.op("min", &rest, &height);
                let [along, down] = l.divide(&inside, &height);
                let odd = l.op("and", &strip, &one);
                let last = l.op("sub", &tiles[1], &one);
                let back = l.op("sub", &last, &along);
                l.push(&format!("%odd = setp<ne> %{odd}, %{zero} : bool"));
                l.push(&format!("%column = selp %odd, %{back}, %{along} : i32"));
                [l.op("add", &first, &down), "column".to_owned(), batch]
            }
        };
        let at = |l: &mut Lines, tile: &str, i: usize| {
            let size = match (self.is_chosen, i) {
                (false, _) => l.constant(self.tile[i]),
                (true, 0) => "rows_step".to_owned(),
                (true, _) => "columns_step".to_owned(),
            };
            let first = l.op("mul", tile, &size);
            let own = l.op("add", &first, &part[i]);
            let wrong = l.constant(self.wrong[i]);
            // Guards see the right index, or the access does.
            (l.op("add", &own, &wrong), own)
        };
        let (row, guarded_row) = at(l, &row, 0);
        let (column, guarded_column) = at(l, &column, 1);
        let wide = |l: &mut Lines, value: &str| l.result(&format!("cvt<i64> %{value}"), "i64");
        let (row_wide, column_wide) = (wide(l, &row), wide(l, &column));
        let down = l.result(&format!("mul %{row_wide}, %pitch"), "i64");
        let batch_wide = wide(l, &batch);
        let far = l.result(&format!("mul %{batch_wide}, %stride"), "i64");
        let base = if self.is_store { "y" } else { "x" };
        let ty = if self.is_store { "ptr<global, mut i32>" } else { "ptr<global, i32>" };
        let mut pointer = base.to_owned();
        let mut index = l.result(&format!("add %{down}, %{column_wide}"), "i64");
        if self.is_chained {
            if self.is_batched {
                pointer = l.result(&format!("offset %{pointer}, %{far}"), ty);
            }
            pointer = l.result(&format!("offset %{pointer}, %{down}"), ty);
            index = column.clone();
        } else if self.is_batched {
            index = l.result(&format!("add %{index}, %{far}"), "i64");
        }
        let in_row = || format!("setp<lt> %{guarded_row}, %rows");
        let in_column = || format!("setp<lt> %{guarded_column}, %columns");
        let guards: Vec<String> = match self.guard {
            Guard::Both => vec![in_row(), in_column()],
            Guard::RowOnly => vec![in_row()],
            Guard::ColumnOnly => vec![in_column()],
            Guard::Left => {
                let down = l.op("sub", "rows", &guarded_row);
                let across = l.op("sub", "columns", &guarded_column);
                vec![format!("setp<gt> %{down}, %{zero}"), format!("setp<gt> %{across}, %{zero}")]
            }
            Guard::NoColumns => {
                let inside = l.result(&in_row(), "bool");
                let own = l.result(&format!("selp %{inside}, %columns, %{zero}"), "i32");
                vec![format!("setp<lt> %{guarded_column}, %{own}")]
            }
            Guard::Vectors => {
                let inside = l.result(&in_row(), "bool");
                let own = l.result(&format!("selp %{inside}, %columns, %{zero}"), "i32");
                let (count, number) =
                    (l.op("div", &own, &vectors), l.op("div", &guarded_column, &vectors));
                vec![format!("setp<lt> %{number}, %{count}")]
            }
        };
        let guards: Vec<String> = guards.iter().map(|guard| l.result(guard, "bool")).collect();
        let all = guards
            .iter()
            .skip(1)
            .fold(guards[0].clone(), |all, one| l.result(&format!("and %{all}, %{one}"), "bool"));
        if self.is_async && vector == 4 && !self.is_store {
            l.push("%sixteen = const 16 : u32");
            l.push("%none = const 0 : u32");
            l.push(&format!("%bytes = selp %{all}, %sixteen, %none : u32"));
            l.push(&format!("%to = mul %t, %{vectors} : i32"));
            l.push(&format!("cp_async<cg, 16> %s, %to, %{pointer}, %{index}, %bytes"));
        } else {
            l.push(&format!("if %{all} {{"));
            let value = l.constant(7);
            match (self.is_store, vector) {
                (true, 1) => l.push(&format!("st %{pointer}, %{index}, %{value}")),
                (false, 1) => drop(l.result(&format!("ld %{pointer}, %{index}"), "i32")),
                (true, lanes) => {
                    let all =
                        l.result(&format!("vec_splat<{lanes}> %{value}"), &format!("i32x{lanes}"));
                    l.push(&format!("st_vec %{pointer}, %{index}, %{all}"));
                }
                (false, lanes) => drop(l.result(
                    &format!("ld_vec<{lanes}> %{pointer}, %{index}"),
                    &format!("i32x{lanes}"),
                )),
            }
            l.push("yield");
            l.push("}");
        }
        lines.text.extend(ends);
        format!(
            "kernel @pitched target sm_80 block {} x 1 x 1 (%x: ptr<global, i32>, \
             %y: ptr<global, mut i32>, %rows: i32, %columns: i32, %pitch: i64, %stride: i64, %rows_step: i32, \
             %columns_step: i32, %rows_tiles: i32, %columns_tiles: i32) {{\n  \
             shared @s: i32 x 64 align 16\n  %s = shared_base<@s> : ptr<shared, mut i32>\n  {}\n  \
             return\n}}\n",
            self.threads(),
            lines.text.join("\n  ")
        )
    }

    /// The grid that covers the matrices.
    fn blocks(self, tiles: [i64; 2], batch: i64) -> [u32; 3] {
        let all = match self.order {
            Order::Grid => [tiles[1], tiles[0], batch],
            Order::Loop => [tiles[0], 1, batch],
            Order::AlongN | Order::Strips(_) => [tiles[0] * tiles[1] * batch, 1, 1],
        };
        all.map(|blocks| blocks as u32)
    }
}

/// The lines of a kernel's body.
#[derive(Default)]
struct Lines {
    text: Vec<String>,
    next: usize,
}

impl Lines {
    fn push(&mut self, line: &str) {
        self.text.push(line.to_owned());
    }

    fn result(&mut self, op: &str, ty: &str) -> String {
        self.next += 1;
        self.text.push(format!("%v{} = {op} : {ty}", self.next));
        format!("v{}", self.next)
    }

    fn constant(&mut self, value: i64) -> String {
        self.result(&format!("const {value}"), "i32")
    }

    fn op(&mut self, name: &str, a: &str, b: &str) -> String {
        self.result(&format!("{name} %{a}, %{b}"), "i32")
    }

    /// The quotient and what is left, as the tile schedulers compute them.
    fn divide(&mut self, a: &str, b: &str) -> [String; 2] {
        let quotient = self.op("div", a, b);
        let whole = self.op("mul", &quotient, b);
        let rest = self.op("sub", a, &whole);
        [quotient, rest]
    }
}

struct Launch {
    sizes: [i64; 2],
    pitch: i64,
    stride: i64,
    /// The distance of tiles, and how many there are.
    steps: [i64; 2],
    tiles: [i64; 2],
    len: i64,
    blocks: [u32; 3],
    is_correct: bool,
}

impl Launch {
    fn random(rng: &mut Rng, kernel: Kernel) -> Launch {
        let mut size = || *rng.pick(&[1, 2, 3, 4, 5, 8, 12, 16]);
        let mut sizes = [size(), size()];
        // Whole vectors.
        sizes[1] = (sizes[1] + kernel.vector - 1) / kernel.vector * kernel.vector;
        let mut pitch = sizes[1] + kernel.vector * *rng.pick(&[0, 0, 1, 3]);
        let batch = if kernel.is_batched { *rng.pick(&[1, 2, 3]) } else { 1 };
        let mut stride = *rng.pick(&[0, sizes[0] * pitch, (sizes[0] + 1) * pitch]);
        let mut len = (batch - 1) * stride + (sizes[0] - 1) * pitch + sizes[1];
        let mut steps = kernel.tile;
        if kernel.is_chosen && rng.below(2) == 0 {
            steps = [(steps[0] - 1).max(1), (steps[1] - kernel.vector).max(kernel.vector)];
        }
        let mut tiles = [0, 1].map(|i| ((sizes[i] + steps[i] - 1) / steps[i]).max(1));
        let mut blocks = kernel.blocks(tiles, batch);
        let mut is_correct = kernel.is_correct();
        let mut is_strange = || {
            let is_strange = rng.below(4) == 0;
            is_correct &= !is_strange;
            is_strange
        };
        let strange: [bool; 5] = [(); 5].map(|()| is_strange());
        if strange[0] {
            len = (len + *rng.pick(&[-1, -1, -2, 1, -len, 7])).max(0);
        }
        if strange[1] {
            let far = [1 << 61, 1 << 62, i64::MAX, i64::MIN, -(1 << 61), i64::MAX / 3 + 1];
            let near = [0, 1, -1, -pitch, 2 * pitch, pitch - 1];
            pitch = if rng.below(2) == 0 { *rng.pick(&far) } else { *rng.pick(&near) };
        }
        if strange[2] {
            let all = [1 << 61, i64::MIN, i64::MAX, 1 << 62, -1, -stride, stride + 1, -(1 << 62)];
            stride = *rng.pick(&all);
        }
        if strange[3] {
            let all = [0, -1, 1, i32::MAX, i32::MAX - 1, i32::MIN, 40, 7];
            sizes[rng.below(2)] = i64::from(*rng.pick(&all));
        }
        if strange[4] {
            blocks = [(); 3].map(|()| *rng.pick(&[1, 1, 2, 3, 5]));
        }
        if kernel.is_chosen && rng.below(4) == 0 {
            let all = [0, -1, 1, i32::MAX, i32::MAX / 2, i32::MIN, 3, 5, 8];
            let size = i64::from(*rng.pick(&all));
            match rng.below(2) {
                0 => steps[rng.below(2)] = size,
                _ => tiles[rng.below(2)] = size,
            }
            is_correct = false;
        }
        Launch { sizes, pitch, stride, steps, tiles, len, blocks, is_correct }
    }
}

#[test]
fn pitched_tiles_keep_their_proofs() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 300), number("TILEWRIGHT_PROVE_SEED", 1));
    let (mut all, mut faults, mut launches) = ([0; 3], 0, 0);
    let (mut fulfilled, mut refused) = (0, 0);
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case) ^ 0x9137);
        let made = Kernel::random(&mut rng);
        let kernel = verified(&made.text());
        let proof = kernel.prove();
        for (sum, count) in all.iter_mut().zip(counts(&proof)) {
            *sum += count;
        }
        for _ in 0..LAUNCHES {
            let launch = Launch::random(&mut rng, made);
            let [rows, columns] = launch.sizes.map(|size| size as i32);
            let other = if rng.below(2) == 0 { launch.len } else { 0 };
            let lens = if made.is_store { [other, launch.len] } else { [launch.len, other] };
            let [bx, by] =
                lens.map(|len| GlobalBuffer::from_slice(&vec![3i32; len.max(0) as usize]));
            let args = [
                KernelArg::Buffer(&bx),
                KernelArg::Buffer(&by),
                KernelArg::Scalar(rows.to_const()),
                KernelArg::Scalar(columns.to_const()),
                KernelArg::Scalar(launch.pitch.to_const()),
                KernelArg::Scalar(launch.stride.to_const()),
                KernelArg::Scalar((launch.steps[0] as i32).to_const()),
                KernelArg::Scalar((launch.steps[1] as i32).to_const()),
                KernelArg::Scalar((launch.tiles[0] as i32).to_const()),
                KernelArg::Scalar((launch.tiles[1] as i32).to_const()),
            ];
            let threads = [made.threads() as u32, 1, 1];
            let [x, y] = lens.map(|len| LaunchValue::Buffer { len: len as u64, alignment: 256 });
            let int = |value: i64| LaunchValue::Integer(value.into());
            let arguments = vec![
                x,
                y,
                int(launch.sizes[0]),
                int(launch.sizes[1]),
                int(launch.pitch),
                int(launch.stride),
                int(launch.steps[0]),
                int(launch.steps[1]),
                int(launch.tiles[0]),
                int(launch.tiles[1]),
            ];
            let values = LaunchValues::new(launch.blocks, threads, arguments);
            let options = Options::default().race(false).fuel(1 << 15).threads(1);
            let grid = Grid::new(launch.blocks, threads);
            let shown = check(kernel.ir(), &proof, grid, &args, &values, &options);
            faults += usize::from(shown == Shown::FaultAtOpen);
            launches += 1;
            if !launch.is_correct {
                continue;
            }
            assert_eq!(shown, Shown::Passed, "{made:?}\n{}", made.text());
            let own = law::fulfilled(&proof, &values, |_, condition| {
                println!("{made:?}\nrefuses {values:?}: {condition}");
            });
            (fulfilled, refused) = (fulfilled + own[0], refused + own[1]);
        }
    }
    let [proved, conditions, open] = all;
    println!(
        "{cases} kernels, {launches} launches, {faults} faults at open accesses; {proved} obligations \
         proved, {conditions} by conditions, {open} open; correct launches fulfil {fulfilled} and \
         miss {refused}"
    );
    assert_eq!(refused, 0);
    assert!(faults > launches / 40, "{faults} faults of {launches} launches");
}
