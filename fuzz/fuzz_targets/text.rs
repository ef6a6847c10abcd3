//! Reads any text as each notation of the layout layer, prints what is accepted, and reads it back.
//!
//! Both values are the same, also with the divisors of symbols, where the text has such. `{:?}` and `{:#}` must not
//! panic either.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use tilewright::layout::{ComposedLayout, Int, IntTuple, Layout, Swizzle, Tiler};

fn law<T: FromStr + Display + Debug + PartialEq>(text: &str)
where
    T::Err: Display + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let _ = format!("{value:#}{value:?}");
            for (printed, is_whole) in
                [(value.to_string(), !text.contains('{')), (format!("{value:+}"), true)]
            {
                // Each `?` is a symbol of its own: equal in form, not in value.
                let is_whole = is_whole && !printed.contains('?');
                match printed.parse::<T>() {
                    Ok(again) => assert!(again == value || !is_whole, "{text:?}: {printed}"),
                    Err(error) => {
                        panic!("{text:?} prints as {printed:?}, which is refused: {error}")
                    }
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|text: &str| {
    law::<Int>(text);
    law::<IntTuple>(text);
    law::<Layout>(text);
    law::<Tiler>(text);
    law::<Swizzle>(text);
    law::<ComposedLayout>(text);
});
