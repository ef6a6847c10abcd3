//! [`Parameters`]: the constants of the model of matrix products.

/// Names the parameters, so that a fit can go through them.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The unknowns of a device and its kernels, fitted to measurements (`tune::fit`).
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Parameters {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Parameters {
            /// Fitted to `bf16` products on an NVIDIA H200, `benches/data/h200-gemm.json`. It has no sample for `alone_cycles` and
            /// `stream_simt_share`, and few of stream-K and `mma.sync`: these stay near fits to other times of an H200 and an H100.
            /// `steady_w` is from 4096 and 8192 cubed in steady work, `benches/data/h200-gemm-report.json`.
            pub const H200: Parameters = Parameters { $($name: $value,)* };

            /// The number of parameters.
            #[cfg(feature = "tune")]
            pub(crate) const COUNT: usize = [$(stringify!($name)),*].len();

            #[cfg(feature = "tune")]
            pub(crate) fn to_array(self) -> [f64; Parameters::COUNT] {
                [$(self.$name),*]
            }

            #[cfg(feature = "tune")]
            pub(crate) fn from_array(values: [f64; Parameters::COUNT]) -> Parameters {
                let [$($name),*] = values;
                Parameters { $($name),* }
            }
        }
    };
}

parameters! {
    /// Seconds of a launch in a graph that do not depend on the kernel.
    launch_s = 1.35e-6,
    /// Seconds that a programmatic launch hides.
    programmatic_s = 6.8e-7,
    /// Cycles from the start of a block to its first product, and from its last store to its end.
    prologue_cycles = 906.0,
    /// Cycles of a step along K beside its products, for the two warp groups of a block together.
    step_cycles = 4.74,
    /// Cycles of a step of a single warp group that nothing hides.
    drain_cycles = 12.7,
    /// Bytes that an SM reads from the L2 cache in a cycle.
    fill_bytes = 75.4,
    /// Bytes of a cycle that an SM receives of tiles which another block of its cluster has asked for.
    receive_bytes = 321.0,
    /// Cycles from asking for a tile to having it.
    latency_cycles = 2530.0,
    /// Cycles of the end of a tile, beside its bytes.
    switch_cycles = 146.0,
    /// Bytes of D that an SM writes in a cycle.
    store_bytes = 12.5,
    /// Cycles of an SM for each accumulator of a function with an exponential: SwiGLU, GELU.
    function_cycles = 0.0925,
    /// The share of the store time that each extra way of a bank conflict adds.
    bank_conflict_share = 0.0668,
    /// The share of the store time for the lines of the L2 cache that parts of rows share with others, times the bytes of a part.
    torn_lines = 18.8,
    /// The share of the end of a tile that is seen where the other warp group multiplies meanwhile.
    pingpong_share = 0.569,
    /// The share of it that is seen where D is written under the next tile.
    overlapped_share = 0.658,
    /// The same for narrow stores, relative to stores as wide as the tile.
    chunks_share = 0.925,
    /// Extra cycles of a step for each other block of its cluster.
    cluster_cycles = 36.3,
    /// The share of the rate of `wgmma` that `mma.sync` reaches.
    mma_sync_share = 0.265,
    /// The share of the L2 cache that keeps tiles for other blocks.
    kept_share = 0.511,
    /// Joules of a floating point operation of 16-bit inputs.
    flop_j = 7.24e-13,
    /// Joules of a byte from the L2 cache.
    l2_j = 1.12e-11,
    /// Joules of a byte from memory.
    memory_j = 2.95e-11,
    /// Watts without work.
    idle_w = 148.0,
    /// Watts of a millisecond's burst, relative to the limit.
    burst_w = 1.93,
    /// The same of steady work. It is above 1 because the energies are fitted to bursts, which tell them up to a factor.
    steady_w = 1.25,
    /// Seconds of the launch that copies unaligned operands before the product, which overlaps with the one before.
    launch_of_copies_s = 1.48e-6,
    /// The cost of a byte of a copy that stays in the L2 cache, as a share of that of a byte of memory.
    cached_share = 0.612,
    /// Cycles of an SM for each copy that a thread makes by `cp.async`.
    copy_cycles = 0.676,
    /// The same for copies through registers.
    load_cycles = 0.338,
    /// Cycles from loads to registers to their end: elements of one tile are in flight at a time.
    round_trip_cycles = 573.0,
    /// Cycles of the first step of a tile for the square of the vectors of 16 bytes that a thread fetches: all of them have
    /// to be in the L1 cache.
    first_cycles = 9.52,
    /// Cycles of each such vector in the next steps.
    vector_cycles = 98.0,
    /// Cycles of all such vectors of a next step of a warp group, at least.
    round_cycles = 2260.0,
    /// The power to which the products of a step take longer with the blocks for which an SM has room, in programmatic launches.
    crowded = 0.51,
    /// Cycles of an element of 16 bits that is stored by itself from registers.
    odd_cycles = 0.526,
    /// The same of an element of rows of whole words of 4 bytes, but not of 16.
    word_cycles = 0.601,
    /// Cycles of a tile that the threads of a warp group store from shared memory.
    direct_cycles = 423.0,
    /// Cycles of each row of such a tile.
    row_cycles = 27.5,
    /// The cost of the end of such a tile, which nothing overlaps, over that of others.
    direct_share = 1.07,
    /// Cycles of such a tile where operands are exchanged: of one warp group with a multiple of 16 rows.
    exchanged_cycles = 1660.0,
    /// The same for other tiles of exchanged operands.
    exchanged_more_cycles = 2100.0,
    /// Cycles of each row of such a tile beyond 64.
    exchanged_row_cycles = 21.9,
    /// Cycles of each part of a tile that is narrower than a line of 128 bytes, beside its bytes.
    part_cycles = 44.4,
    /// Cycles from the request for a stage to its first bytes.
    request_cycles = 341.0,
    /// The share of the time of its bytes that follows.
    fill_share = 0.93,
    /// Cycles in which the blocks of a cluster wait for each other at the start and at the end.
    cluster_wait_cycles = 713.0,
    /// Cycles from the request for a stage of a cluster of two to its first bytes, beyond those of one block.
    cluster_latency_cycles = 260.0,
    /// The share of them that counts where the stages are few.
    cluster_share = 0.538,
    /// Stages that a cluster of two holds beyond those of one block, because its blocks are not equally far.
    cluster_stages = 0.322,
    /// Cycles of the start and the end of a thread block that has an SM for itself, without tensor cores.
    alone_cycles = 30_000.0,
    /// Cycles in which a warp group makes the rows zero that a tile has fewer than an instruction.
    clear_cycles = 826.0,
    /// Seconds that a programmatic launch hides beyond the usual ones where its blocks are at most a quarter of the SMs:
    /// several launches run at once.
    overlap_quarter_s = 3.82e-8,
    /// The same where they are at most half of them.
    overlap_half_s = 9.03e-8,
    /// The time of a programmatic launch over that of another one, where its blocks start wherever an SM happens to be free
    /// and share a large operand.
    hindered = 1.1,
    /// Bytes that the L2 cache gives each SM in a cycle where all ask for them.
    chip_bytes = 116.0,
    /// The cost of a byte of D among them.
    written_share = 1.34,
    /// The share of the energy of a byte of a tile that each SM which receives it takes; the rest is that of the L2 cache,
    /// once for a cluster.
    received_share = 0.881,
    /// The exponent `p` of the combined time `(sum t_i^p)^(1/p)` of the limits `t_i`.
    power = 2.82,
    /// Cycles from a copy by threads to its bytes.
    copied_cycles = 1100.0,
    /// Bytes of partial accumulators that an SM writes or reads in a cycle.
    partial_bytes = 67.5,
    /// Bytes of a part beyond which it goes slowly.
    large_part = 57_300.0,
    /// The bytes of the rest in a cycle.
    large_part_bytes = 7.68,
    /// Cycles from the last part that is written until the first part is read.
    exchange_cycles = 1360.0,
    /// The time of stream-K over what its steps would take, with tensor cores: neighbours are at different steps along K, and
    /// share no tiles of A and B in the L2 cache.
    stream_share = 1.46,
    /// The same without tensor cores: the products hide more of it.
    stream_simt_share = 1.1,
    /// The cost of a byte in rows that are not aligned to lines of the L2 cache, which are in two lines each, where all SMs
    /// work; it is less in proportion where some do not.
    unaligned = 1.99,
    /// The power of a share of the SMs to which their rate of memory grows.
    memory_root = 0.842,
    /// The power of the rows of a tile over those inside of the matrix to which the cost of the latter grows.
    beyond = 0.291,
    /// The cost of a sector that two parts of a row of D share, where all rows begin with a sector.
    torn_bytes = 149.0,
    /// The same where they do not.
    shifted_bytes = 44.9,
    /// The cost of a written byte of memory, relative to a byte that is read.
    write_share = 1.57,
}
