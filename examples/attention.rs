//! Computes causal attention with grouped heads, and compares it with the host:
//! `cargo run --example attention`.

use std::error::Error;

use tilewright::ir::{Target, bf16};
use tilewright::kernels::attention::{Attention, AttentionArgs, AttentionConfig, AttentionProblem};
use tilewright::runtime::Device;

/// Computes the attention on the device, and compares each output with the definition.
pub(crate) fn run(device: &Device) -> Result<(), Box<dyn Error>> {
    let [batch, heads, key_heads, queries, keys, dim] = [1, 4, 2, 70, 100, 64];
    let problem = AttentionProblem::new([batch, heads, key_heads], [queries, keys], dim).causal();
    let config = AttentionConfig::new(device.target(), &problem)?;
    let attention = Attention::<bf16>::new(config)?.load(device)?;
    let numbers = |count: u32, seed: u32| -> Vec<bf16> {
        let number = |i: u32| (i * seed % 1009) as f32 / 504.0 - 1.0;
        (0..count).map(|i| bf16::from_f32(number(i))).collect()
    };
    let q = numbers(batch * heads * queries * dim, 37);
    let k = numbers(batch * key_heads * keys * dim, 41);
    let v = numbers(batch * key_heads * keys * dim, 43);
    let (q_at, k_at, v_at) = (device.upload(&q)?, device.upload(&k)?, device.upload(&v)?);
    let mut o = device.zeros::<bf16>(q.len())?;
    let mut lse = device.zeros::<f32>(usize::try_from(batch * heads * queries)?)?;
    let args =
        AttentionArgs { q: &q_at, k: &k_at, v: &v_at, o: &mut o, lse: &mut lse, starts: None };
    attention.launch(&problem, args)?;
    let (o, lse) = (o.to_vec()?, lse.to_vec()?);
    let dim = usize::try_from(dim)?;
    let row = |all: &[bf16], row: u32| -> Vec<f64> {
        let rows = all.chunks(dim).zip(0..);
        let own = rows.filter(|(_, number)| *number == row).flat_map(|(of_row, _)| of_row);
        own.map(|x| f64::from(x.to_f32())).collect()
    };
    for (number, lse) in (0..).zip(lse) {
        let (head, query) = (number / queries, number % queries);
        let first = head / (heads / key_heads) * keys;
        let of_query = row(&q, number);
        let score = |key: u32| -> f64 {
            let of_key = row(&k, first + key);
            let dot: f64 = of_query.iter().zip(of_key).map(|(q, k)| q * k).sum();
            dot * f64::from(problem.scale())
        };
        let scores: Vec<f64> = problem.visible(query).map(score).collect();
        let expected_lse = scores.iter().map(|score| score.exp()).sum::<f64>().ln();
        assert!((f64::from(lse) - expected_lse).abs() < 1e-4);
        let mut expected = vec![0.0; dim];
        for (key, score) in problem.visible(query).zip(scores) {
            let power = (score - expected_lse).exp();
            expected.iter_mut().zip(row(&v, first + key)).for_each(|(o, v)| *o += power * v);
        }
        for (found, expected) in row(&o, number).into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.01, "{found}, not {expected}");
        }
    }
    println!("the attention of {heads} heads by {config} is right on {}", device.name());
    Ok(())
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default()?;
    if device.is_sim() { run(&Device::sim_for(Target::SM_90A)?) } else { run(&device) }
}
