use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<i32>, i32)>::build("count", Target::SM_80, |k, (y, n)| {
        for i in 0..4usize {
            y.store(0, n + i);
        }
        let rows: usize = 4;
        k.for_(range(n, rows), (), |k, i, ()| y.store(i, 0));
    });
}
