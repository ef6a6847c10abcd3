//! [`Parameters`]: the constants of the GEMM cost model, fitted to measurements of a GPU by
//! `tilewright_tune::fit`. A new fit replaces the numbers in this file.

/// Declares the parameters as an array too, so that the fit can vary one after the other.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The constants of the GEMM cost model. They describe a GPU and our kernels on it, and are
        /// fitted to measured times (`tilewright_tune::fit`). Replace them in a
        /// [`GemmModel`](crate::kernels::gemm::GemmModel) if you have fitted your own.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Parameters {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Parameters {
            /// Fitted to bf16 GEMMs on an NVIDIA H200, `benches/data/h200-gemm.json`. The data has
            /// no sample for `alone_cycles` and `stream_simt_share`, and few for stream-K and
            /// `mma.sync`, so these values stay close to earlier fits for an H200 and an H100.
            /// `steady_w` comes from 4096³ and 8192³ in steady work,
            /// `benches/data/h200-gemm-report.json`.
            pub const H200: Parameters = Parameters { $($name: $value,)* };

            /// How many parameters there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// Returns the parameters in the order of the fields, so that a fit can vary one after
            /// the other.
            #[inline]
            pub fn to_array(self) -> [f64; Parameters::COUNT] {
                [$(self.$name),*]
            }

            /// Returns the parameters from their values in the order of
            /// [`to_array`](Parameters::to_array).
            #[inline]
            pub fn from_array(values: [f64; Parameters::COUNT]) -> Parameters {
                let [$($name),*] = values;
                Parameters { $($name),* }
            }
        }
    };
}

parameters! {
    /// Seconds per launch in a graph, for any kernel.
    launch_s = 1.35e-6,
    /// Seconds that a programmatic launch hides.
    programmatic_s = 6.8e-7,
    /// Cycles from the start of a block to its first MMA, plus those from its last store to its
    /// end.
    prologue_cycles = 906.0,
    /// Cycles per step along K in addition to its MMA, for the two consumer groups of a block
    /// together.
    step_cycles = 4.74,
    /// Cycles per step that nothing hides if a block has a single consumer group.
    drain_cycles = 12.7,
    /// Bytes per cycle that an SM reads from the L2 cache.
    fill_bytes = 75.4,
    /// Bytes per cycle that an SM receives from tiles that other blocks of its cluster requested.
    receive_bytes = 321.0,
    /// Cycles from requesting a tile to having it.
    latency_cycles = 2530.0,
    /// Cycles at the end of a tile, not counting its bytes.
    switch_cycles = 146.0,
    /// Bytes of D per cycle that an SM writes.
    store_bytes = 12.5,
    /// Cycles per accumulator if the epilogue has an exponential (SwiGLU, GELU).
    function_cycles = 0.0925,
    /// How much longer the store takes, as a share, for each extra way of a bank conflict.
    bank_conflict_share = 0.0668,
    /// How much longer the store takes because parts of rows share L2 lines with their neighbours:
    /// this value divided by a part's bytes.
    torn_lines = 18.8,
    /// How much of a tile's end is visible while the other warp group multiplies, as a share
    /// (ping-pong).
    pingpong_share = 0.569,
    /// How much of it is visible if D is stored during the next tile, as a share.
    overlapped_share = 0.658,
    /// How much of it is visible with stores narrower than the tile, as a share of full-width
    /// stores.
    chunks_share = 0.925,
    /// Extra cycles per step for each other block of the cluster.
    cluster_cycles = 36.3,
    /// The rate of `mma.sync`, as a share of that of `wgmma`.
    mma_sync_share = 0.265,
    /// How much of the L2 cache keeps tiles for other blocks, as a share.
    kept_share = 0.511,
    /// Joules per floating-point operation with 16-bit inputs.
    flop_j = 7.24e-13,
    /// Joules per byte from the L2 cache.
    l2_j = 1.12e-11,
    /// Joules per byte from memory.
    memory_j = 2.95e-11,
    /// Watts when idle.
    idle_w = 148.0,
    /// Power in a burst of a millisecond, relative to the power limit.
    burst_w = 1.93,
    /// The same in steady work. It is above 1 because the energies are fitted to bursts, which
    /// determine them only up to a factor.
    steady_w = 1.25,
    /// Seconds of the launch that repacks misaligned operands. It overlaps with the previous
    /// launch.
    launch_of_copies_s = 1.48e-6,
    /// Cost of a repacked byte that stays in the L2 cache, relative to a byte of memory.
    cached_share = 0.612,
    /// Cycles per `cp.async` that a thread issues.
    copy_cycles = 0.676,
    /// The same for copies through registers.
    load_cycles = 0.338,
    /// Cycles of a round trip for loads to registers. Elements of one tile are in flight at a time.
    round_trip_cycles = 573.0,
    /// Cycles of a tile's first step, per square of the 16-byte vectors that a thread fetches: all
    /// of them must fit into the L1 cache.
    first_cycles = 9.52,
    /// Cycles per such vector in the following steps.
    vector_cycles = 98.0,
    /// Cycles per such step of a warp group, at least.
    round_cycles = 2260.0,
    /// How much longer MMA takes in programmatic launches if an SM has room for several blocks: the
    /// exponent of that block count.
    crowded = 0.51,
    /// Cycles per 16-bit element that is stored on its own from registers.
    odd_cycles = 0.526,
    /// The same for elements of rows that are whole 4-byte words but not multiples of 16 bytes.
    word_cycles = 0.601,
    /// Cycles per tile that a warp group's threads store from shared memory.
    direct_cycles = 423.0,
    /// Cycles per row of such a tile.
    row_cycles = 27.5,
    /// The end of such a tile, which nothing overlaps, relative to other tiles.
    direct_share = 1.07,
    /// Cycles per such tile with swapped operands, for one warp group and a multiple of 16 rows.
    exchanged_cycles = 1660.0,
    /// The same for other tiles with swapped operands.
    exchanged_more_cycles = 2100.0,
    /// Cycles per row of such a tile beyond row 64.
    exchanged_row_cycles = 21.9,
    /// Cycles per part narrower than a 128-byte line, not counting its bytes.
    part_cycles = 44.4,
    /// Cycles from requesting a stage to its first bytes.
    request_cycles = 341.0,
    /// How much of the time to transfer the bytes comes on top, as a share.
    fill_share = 0.93,
    /// Cycles that the blocks of a cluster wait for each other at start and end.
    cluster_wait_cycles = 713.0,
    /// Extra cycles from requesting a stage to its first bytes in a cluster of two.
    cluster_latency_cycles = 260.0,
    /// How much of them counts if stages are few, as a share.
    cluster_share = 0.538,
    /// Extra stages that a cluster of two occupies, because its blocks do not advance in lockstep.
    cluster_stages = 0.322,
    /// Cycles to start and end a block without tensor cores that has an SM to itself.
    alone_cycles = 30_000.0,
    /// Cycles for a warp group to clear the rows that a low tile lacks for a `wgmma`.
    clear_cycles = 826.0,
    /// Extra seconds that a programmatic launch hides if its blocks fill at most a quarter of the
    /// SMs, so that several launches run at once.
    overlap_quarter_s = 3.82e-8,
    /// The same if they fill at most half.
    overlap_half_s = 9.03e-8,
    /// How much longer a programmatic launch takes if its blocks share a large operand but start
    /// wherever an SM becomes free.
    hindered = 1.1,
    /// Bytes per cycle and SM that the L2 cache delivers when all SMs ask.
    chip_bytes = 116.0,
    /// Cost of a byte of D among them.
    written_share = 1.34,
    /// How much of a tile byte's energy each receiving SM takes, as a share. The rest is the L2
    /// cache's, once per cluster.
    received_share = 0.881,
    /// The exponent `p` that combines the limits `t_i` into one time, `(sum t_i^p)^(1/p)`.
    power = 2.82,
    /// Cycles from a copy by threads to having its bytes.
    copied_cycles = 1100.0,
    /// Bytes of partial accumulators per cycle that an SM writes or reads.
    partial_bytes = 67.5,
    /// Bytes of a part beyond which writing and reading it becomes slow.
    large_part = 57_300.0,
    /// Bytes per cycle beyond that.
    large_part_bytes = 7.68,
    /// Cycles from writing the last part to reading the first one.
    exchange_cycles = 1360.0,
    /// How much longer stream-K takes than its steps alone, with tensor cores: neighbouring blocks
    /// are at different steps along K, so they share no tiles in the L2 cache.
    stream_share = 1.46,
    /// The same without tensor cores, where multiplying hides more of it.
    stream_simt_share = 1.1,
    /// Cost of a byte in rows that are not aligned to L2 lines and so straddle two, if all SMs
    /// work; proportionally less if not.
    unaligned = 1.99,
    /// Exponent by which memory bandwidth grows with the share of SMs that work.
    memory_root = 0.842,
    /// Exponent by which a tile's cost grows with its rows relative to those inside the matrix.
    beyond = 0.291,
    /// Cost of a sector that two parts of a row of D share, if all rows start at a sector.
    torn_bytes = 149.0,
    /// The same if they do not.
    shifted_bytes = 44.9,
    /// Cost of a byte written to memory, relative to one read.
    write_share = 1.57,
}
