//! Inputs that once gave a wrong answer, found by the fuzz targets.

use tilewright::layout::{Int, LayoutError};

#[test]
fn the_divisor_of_the_smallest_number_divides_it() {
    let least = Int::from(i64::MIN);
    assert_eq!(least.divisibility(), 1 << 62);
    assert!(matches!(least.gcd(&Int::ZERO), Err(LayoutError::Overflow { .. })));
    assert_eq!(least.gcd(&Int::from(96)), Ok(Int::from(32)));
    let sum = Int::symbol("n").mul(&Int::from(i64::MIN));
    assert!(sum.is_err() || sum.is_ok_and(|sum| i64::MIN % sum.divisibility() == 0));
}
