tilewright::params! {
    struct Scaled<T: Number> {
        data: Global<T>,
        factor: f32,
    }
}

fn main() {}
