//! The device code of a selective scan.
//!
//! A thread has some states of one channel in registers and goes through all steps in order. Each
//! state and step takes one exponential, which bounds the speed, and four multiplications or
//! multiply-adds. If threads shared the time, each would have to go through its steps twice, and
//! each state would need shuffles; that pays only if channels and states cannot fill the GPU.
//!
//! A block takes some channels of one sequence. It copies the next steps of all operands to shared
//! memory: there `dt` becomes delta, `x` becomes `delta * x`, and B and C are transposed, so that a
//! thread gets its states of a step with vector loads.

use std::f32::consts::LOG2_E;

use crate::ir::builder::{Role, VectorElement};
use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Group, Kernel, KernelOptions, Shared, Val, range,
};
use crate::tensor::rows::{RowFragment, RowPartition, RowTile};

use super::config::{DeltaActivation, SelectiveScanConfig};

/// The type of the elements of x, dt, B, C, z and y in the kernel's body.
pub(super) type X = Role<0>;

crate::params! {
    /// The kernel's parameters. An operand that a launch does not have counts 0 channels or steps.
    pub(super) struct Operands<T: VectorElement<2>> => OperandsAt<'b, T> {
        pub(super) x: Global<T>,
        pub(super) dt: Global<T>,
        pub(super) a: Global<f32>,
        pub(super) b: Global<T>,
        pub(super) c: Global<T>,
        pub(super) y: GlobalMut<T>,
        pub(super) channels: i32,
        pub(super) length: i32,
        pub(super) bias: Global<f32>,
        pub(super) bias_channels: i32,
        pub(super) skip: Global<f32>,
        pub(super) skip_channels: i32,
        pub(super) gate: Global<T>,
        pub(super) gate_length: i32,
        pub(super) initial: Global<f32>,
        pub(super) initial_channels: i32,
    }
}

/// The parameters, and the final states if they are stored (`N` is 1, else 0).
pub(super) type Params<T, const N: usize> = (Operands<T>, [GlobalMut<f32>; N]);

/// Steps that a thread computes together, with vector loads of delta.
const TOGETHER: u32 = 4;

/// A sequence that a thread helps to load.
#[derive(Clone, Copy)]
struct Sequence<'b> {
    /// Its row in shared memory, and its first element in global memory.
    row: Val<'b, i32>,
    start: Val<'b, i64>,
    /// The thread's part of the first chunk of steps.
    part: RowPartition<'b>,
}

/// A channel's sequences x, dt, z and y.
#[derive(Clone, Copy)]
struct Channel<'b> {
    sequence: Sequence<'b>,
    /// The thread's part of z.
    gate: RowPartition<'b>,
    bias: Val<'b, f32>,
    skip: Val<'b, f32>,
}

/// A thread's elements of x, dt and z in a chunk of steps.
struct Elements<'b> {
    x: RowFragment<'b, X>,
    dt: RowFragment<'b, X>,
    gate: RowFragment<'b, X>,
}

/// What a block's threads share.
#[derive(Clone, Copy)]
struct Block<'b> {
    config: SelectiveScanConfig,
    tile: RowTile,
    p: OperandsAt<'b, X>,
    /// The sequence in the batch, and the block's first channel.
    batch: Val<'b, i64>,
    first: Val<'b, i32>,
    /// For each channel: delta, `delta * x`, and the sum of `C * h` of each step.
    deltas: Val<'b, Shared<f32>>,
    inputs: Val<'b, Shared<f32>>,
    sums: Val<'b, Shared<f32>>,
    /// For each step: B and C of all states.
    b: Val<'b, Shared<f32>>,
    c: Val<'b, Shared<f32>>,
}

impl SelectiveScanConfig {
    #[inline]
    pub(super) fn build<const N: usize>(&self) -> Result<Kernel<Params<X, N>>, BuildErrors> {
        let options = KernelOptions::default().block([self.threads(), 1, 1]);
        let name = format!("selective_scan_{}_{self}", X::scalar());
        Kernel::<Params<X, N>>::build_with(options, &name, self.target, |k, (operands, last)| {
            self.body(k, operands, last.first().copied());
        })
    }

    /// Emits the kernel.
    #[inline]
    fn body<'b>(
        &self,
        k: &mut Body<'b, '_>,
        p: OperandsAt<'b, X>,
        last: Option<Val<'b, GlobalMut<f32>>>,
    ) {
        let SelectiveScanConfig { lanes, channels, states, steps, .. } = *self;
        let block = Block::new(k, *self, p);
        let own_rows: Vec<_> = block.rows(k, channels).collect();
        let mine: Vec<_> = own_rows.into_iter().map(|row| block.channel(k, row)).collect();
        let matrices: Vec<_> = block.rows(k, states).map(|row| block.state(k, row)).collect();

        // The channel and the states that this thread computes.
        let (thread, share) = (k.thread_idx().x, self.share());
        let (channel, state) = (block.first + thread / lanes, thread % lanes * share);
        let row = block.batch * p.channels.cvt::<i64>() + channel.cvt::<i64>();
        let in_channel = |row: Val<'b, i64>| row * i64::from(states) + state.cvt::<i64>();
        let zeros = vec![k.constant(0.0f32); share as usize];
        let (in_a, in_states) = (in_channel(channel.cvt()), in_channel(row));
        let a = k.if_with(channel.lt(p.channels), zeros.clone(), |_| {
            let a = p.a.offset(in_a);
            (0..share).map(|n| a.load(n) * LOG2_E).collect()
        });
        let h = k.if_with(channel.lt(p.initial_channels), zeros, |_| {
            let initial = p.initial.offset(in_states);
            (0..share).map(|n| initial.load(n)).collect()
        });
        let chunks = (p.length + (steps - 1)) / steps;
        let h = k.for_(range(0, chunks), h, |k, chunk, h| {
            let loaded = block.stage(&mine, &matrices, chunk);
            k.barrier();
            let h = block.advance(k, &a, h);
            k.barrier();
            block.store(k, &mine, loaded, chunk);
            h
        });
        if let Some(last) = last {
            k.if_(channel.lt(p.channels), |_| {
                let last = last.offset(in_states);
                (0..).zip(&h).for_each(|(n, h)| last.store(n, *h));
            });
        }
    }
}

impl<'b> Block<'b> {
    #[inline]
    fn new(k: &Body<'b, '_>, config: SelectiveScanConfig, p: OperandsAt<'b, X>) -> Self {
        let SelectiveScanConfig { channels, states, steps, .. } = config;
        let tile = config.tile(X::scalar());
        let padded = |rows| SelectiveScanConfig::padded(rows, &tile);
        let of_channels = || k.shared_aligned::<f32>(padded(channels) * config.pitch(), 16);
        let of_states = || k.shared_aligned::<f32>(steps * padded(states), 16);
        Block {
            config,
            tile,
            p,
            batch: k.block_idx().y.cvt(),
            first: k.block_idx().x * channels,
            deltas: of_channels(),
            inputs: of_channels(),
            sums: of_channels(),
            b: of_states(),
            c: of_states(),
        }
    }

    /// Returns the rows that this thread helps to load, of `count` rows in shared memory. There can
    /// be more than `count`.
    #[inline]
    fn rows(&self, k: &Body<'b, '_>, count: u32) -> impl Iterator<Item = Val<'b, i32>> + use<'b> {
        let row = k.thread_idx().x / self.tile.team;
        (0..count).step_by(self.tile.rows_per_block() as usize).map(move |more| row + more)
    }

    /// Returns the thread's part of a sequence's first chunk; 0 steps if there is no such sequence.
    #[inline]
    fn part(&self, k: &Body<'b, '_>, steps: Val<'b, i32>) -> RowPartition<'b> {
        self.tile.part::<X>(k, k.constant(0), steps)
    }

    #[inline]
    fn channel(&self, k: &mut Body<'b, '_>, row: Val<'b, i32>) -> Channel<'b> {
        let (p, channel) = (self.p, self.first + row);
        let exists = row.lt(self.config.channels) & channel.lt(p.channels);
        let index = self.batch * p.channels.cvt::<i64>() + channel.cvt::<i64>();
        let [bias, skip] =
            [(p.bias, p.bias_channels), (p.skip, p.skip_channels)].map(|(from, count)| {
                k.if_with(exists & channel.lt(count), 0.0, |_| from.load(channel))
            });
        let [part, gate] =
            [p.length, p.gate_length].map(|steps| self.part(k, exists.select(steps, 0)));
        let sequence = Sequence { row, start: index * p.length.cvt::<i64>(), part };
        Channel { sequence, gate, bias, skip }
    }

    /// Returns a state's sequence in B and in C.
    #[inline]
    fn state(&self, k: &Body<'b, '_>, row: Val<'b, i32>) -> Sequence<'b> {
        let (states, length) = (self.config.states, self.p.length);
        let index = self.batch * i64::from(states) + row.cvt::<i64>();
        let part = self.part(k, row.lt(states).select(length, 0));
        Sequence { row, start: index * length.cvt::<i64>(), part }
    }

    /// Returns where the thread's vectors of a channel's steps are in shared memory.
    #[inline]
    fn places(&self, sequence: &Sequence<'b>) -> Vec<Val<'b, i32>> {
        let columns = sequence.part.columns().into_iter().step_by(self.vector() as usize);
        columns.map(|column| sequence.row * self.config.pitch() + column).collect()
    }

    /// Returns the elements per vector.
    fn vector(&self) -> u32 {
        self.tile.vector(X::scalar())
    }

    /// Copies a chunk of steps to shared memory. Returns what the thread has loaded.
    #[inline]
    fn stage(
        &self,
        channels: &[Channel<'b>],
        states: &[Sequence<'b>],
        chunk: Val<'b, i32>,
    ) -> Vec<Elements<'b>> {
        let (p, activation) = (self.p, self.config.delta);
        // Steps after the last one have delta 0, so that they leave the states alone.
        let fill = match activation {
            DeltaActivation::Softplus => f32::NEG_INFINITY,
            DeltaActivation::Identity => 0.0,
        };
        // All loads come before the first use, so that they are in flight together.
        let mut loaded = Vec::new();
        for Channel { sequence: Sequence { start, part, .. }, gate, .. } in channels {
            let (part, gate) = (part.step(chunk), gate.step(chunk));
            loaded.push(Elements {
                x: part.load_elements(p.x.offset(*start), 0.0),
                dt: part.load_elements(p.dt.offset(*start), fill),
                gate: gate.load_elements(p.gate.offset(*start), 0.0),
            });
        }
        let mut matrices = Vec::new();
        for (from, to) in [(p.b, self.b), (p.c, self.c)] {
            for sequence in states {
                let part = sequence.part.step(chunk);
                let elements = part.load_elements(from.offset(sequence.start), 0.0);
                matrices.push((sequence, elements, to));
            }
        }
        for (channel, Elements { x, dt, .. }) in channels.iter().zip(&loaded) {
            let bias = channel.sequence.part.step(chunk).where_present(channel.bias, 0.0);
            let deltas = dt.iter_f32().zip(bias).map(|(dt, bias)| activation.of(dt + bias));
            let deltas: Vec<_> = deltas.collect();
            let inputs: Vec<_> =
                deltas.iter().zip(x.iter_f32()).map(|(delta, x)| *delta * x).collect();
            for (to, values) in [(self.deltas, deltas), (self.inputs, inputs)] {
                let vectors = values.chunks(self.vector() as usize);
                for (at, vector) in self.places(&channel.sequence).into_iter().zip(vectors) {
                    to.store_slice(at, vector);
                }
            }
        }
        let pitch = SelectiveScanConfig::padded(self.config.states, &self.tile);
        for (sequence, elements, to) in matrices {
            for (step, value) in sequence.part.columns().into_iter().zip(elements.iter_f32()) {
                to.store(step * pitch + sequence.row, value);
            }
        }
        loaded
    }

    /// Computes a chunk's steps of the thread's states `h`. Returns the states after it.
    #[inline]
    fn advance(
        &self,
        k: &mut Body<'b, '_>,
        a: &[Val<'b, f32>],
        h: Vec<Val<'b, f32>>,
    ) -> Vec<Val<'b, f32>> {
        let SelectiveScanConfig { lanes, states, steps, .. } = self.config;
        let (share, pitch) = (self.config.share(), self.config.pitch());
        let state_pitch = SelectiveScanConfig::padded(states, &self.tile);
        let thread = k.thread_idx().x;
        let (row, lane) = (thread / lanes, thread % lanes);
        k.for_(range(0, steps).step(TOGETHER), h, |k, first, mut h| {
            let at = row * pitch + first;
            let [deltas, inputs] =
                [self.deltas, self.inputs].map(|from| load_shared(from, at, TOGETHER));
            let mut sums = Vec::new();
            for (step, (delta, input)) in (0..).zip(deltas.into_iter().zip(inputs)) {
                let at = (first + step) * state_pitch + lane * share;
                let [b, c] = [self.b, self.c].map(|from| load_shared(from, at, share));
                for ((h, a), b) in h.iter_mut().zip(a).zip(b) {
                    *h = (delta * *a).exp2_fast().fma(*h, input * b);
                }
                let sum = k.constant(0.0);
                sums.push(h.iter().zip(c).fold(sum, |sum, (h, c)| h.fma(c, sum)));
            }
            let sums = k.reduce(Group::Lanes(lanes), sums, |_, a, b| {
                a.into_iter().zip(b).map(|(a, b)| a + b).collect()
            });
            k.if_(lane.eq(0), |_| self.sums.store_slice(at, &sums));
            h
        })
    }

    /// Stores a chunk's results.
    #[inline]
    fn store(
        &self,
        k: &mut Body<'b, '_>,
        channels: &[Channel<'b>],
        loaded: Vec<Elements<'b>>,
        chunk: Val<'b, i32>,
    ) {
        let has_gate = self.p.gate_length.gt(0);
        for (Channel { sequence, skip, .. }, Elements { x, gate, .. }) in
            channels.iter().zip(loaded)
        {
            // Shared memory can have more rows than the block has channels.
            k.if_(sequence.row.lt(self.config.channels), |_| {
                let places = self.places(sequence).into_iter();
                let sums: Vec<_> =
                    places.flat_map(|at| load_shared(self.sums, at, self.vector())).collect();
                let values = sums.into_iter().zip(x.iter_f32()).zip(gate.iter_f32());
                let values = values.map(|((sum, x), gate)| {
                    let y = x.fma(*skip, sum);
                    // From -100 on, `silu_fast` is 0. It would be NaN for negative infinity.
                    has_gate.select(y * gate.max_nan(-100.0).silu_fast(), y)
                });
                let part = sequence.part.step(chunk);
                part.store(self.p.y.offset(sequence.start), values);
            });
        }
    }
}

impl DeltaActivation {
    #[inline]
    fn of(self, value: Val<'_, f32>) -> Val<'_, f32> {
        match self {
            DeltaActivation::Identity => value,
            DeltaActivation::Softplus => (-value.abs()).exp_fast().ln_1p() + value.max(0.0),
        }
    }
}

/// Loads `count` adjacent values, a power of two, in vectors of at most 16 bytes.
#[inline]
fn load_shared<'b>(from: Val<'b, Shared<f32>>, at: Val<'b, i32>, count: u32) -> Vec<Val<'b, f32>> {
    let len = count.min(4);
    let vectors = (0..count).step_by(len as usize).filter_map(|more| from.load_any(at + more, len));
    vectors.filter_map(|vector| vector.values::<f32>()).flatten().collect()
}
