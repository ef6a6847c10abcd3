//! `serde` for the types of the algebra: as text in their notation, with the facts about symbols.
//! Store layouts in a configuration file with it.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    ComposedLayout, Coord, Int, IntTuple, Layout, Ratio, ScaledBasis, StrideTuple, Swizzle, Tiler,
};

struct Text<T>(std::marker::PhantomData<T>);

impl<T: std::str::FromStr<Err = super::LayoutError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in the notation of layouts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($t:ty),*) => {$(
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&format_args!("{self:+}"))
            }
        }
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text(std::marker::PhantomData))
            }
        }
    )*};
}
as_text!(
    Int,
    IntTuple,
    StrideTuple,
    Coord,
    Tiler,
    Layout,
    ComposedLayout,
    Ratio,
    ScaledBasis,
    Swizzle
);
