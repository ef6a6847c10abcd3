//! Compiles and runs the listings of the book as doc tests. Those of the chapter on tuning are tests
//! of the crate `tilewright-tune`.

/// Declares a module for each chapter, with the chapter as its documentation.
macro_rules! chapters {
    ($($(#[$attribute:meta])* $name:ident = $file:literal,)*) => {$(
        $(#[$attribute])*
        #[doc = include_str!(concat!("../book/src/", $file))]
        mod $name {}
    )*};
}

chapters! {
    about = "about.md",
    first_kernel = "01-first-kernel.md",
    words = "02-words.md",
    layouts = "03-layouts.md",
    algebra = "04-algebra.md",
    control_flow = "05-control-flow.md",
    reduction = "06-reduction.md",
    softmax = "07-softmax.md",
    tensors = "08-tensors.md",
    transpose = "09-transpose.md",
    mma_sync = "10-mma-sync.md",
    wgmma = "11-wgmma.md",
    eight_levels = "12-eight-levels.md",
    epilogues = "13-epilogues.md",
    broken_kernel = "14-broken-kernel.md",
    #[cfg(feature = "proptest")]
    property_testing = "15-property-testing.md",
    streams = "16-streams.md",
    cudarc_candle = "17-cudarc-candle.md",
    pytorch = "18-pytorch.md",
    timing = "19-timing.md",
    slow = "20-slow.md",
    ptx = "22-ptx.md",
    splitting = "23-splitting.md",
    safety = "24-safety.md",
    adding = "25-adding.md",
}
