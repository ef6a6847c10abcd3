//! Layouts with names: the operations are those of the plain layout, and there is one name for each
//! mode.

use expect_test::expect;
use proptest::prelude::*;
use tilewright::layout::strategies::{layouts, symbolic_layouts, tilers};
use tilewright::layout::{
    Layout, LayoutError, NameError, NamedLayout, Tiler, coord, layout, tiler,
};

fn names(rank: usize) -> Vec<String> {
    (0..rank).map(|mode| format!("x{mode}")).collect()
}

/// A result is that of the plain layout, with as many names as modes.
#[track_caller]
fn check(plain: Result<Layout, LayoutError>, named: Result<NamedLayout, LayoutError>) {
    match (plain, named) {
        (Ok(plain), Ok(named)) => {
            assert_eq!(&plain, named.layout());
            assert_eq!(named.names().count(), plain.rank(), "{named}");
        }
        (Err(plain), Err(named)) => assert_eq!(plain.cause(), named.cause()),
        (plain, named) => panic!("{plain:?} but {named:?}"),
    }
}

fn with_tilers() -> impl Strategy<Value = (Layout, Tiler)> {
    layouts(64).prop_flat_map(|layout| {
        let tilers = tilers(layout.rank());
        (Just(layout), tilers)
    })
}

proptest! {
    #[test]
    fn operations_are_those_of_the_layout((layout, tiler) in with_tilers(), other in layouts(16)) {
        let named = layout.named(names(layout.rank())).unwrap();
        macro_rules! agree {
            ($($operation:ident)*) => {$(
                check(layout.$operation(&tiler), named.$operation(&tiler));
                check(layout.$operation(&other), named.$operation(&other));
            )*};
        }
        agree!(logical_divide zipped_divide tiled_divide flat_divide);
        agree!(logical_product zipped_product tiled_product flat_product);
        check(layout.blocked_product(&other), named.blocked_product(&other));
        check(layout.raked_product(&other), named.raked_product(&other));
        let rank = layout.rank();
        check(layout.group(0, rank), named.group_modes(0, rank));
        check(layout.group(1, rank + 1), named.group_modes(1, rank + 1));
        check(layout.select(&[rank - 1, 0]), named.select(&[rank - 1, 0]));
        for mode in 0..rank {
            let name = format!("x{mode}");
            prop_assert_eq!(named.mode(&name).unwrap().to_layout(), layout.get(&[mode]).unwrap());
            let at = named.coordinate([(name.as_str(), 0)]).unwrap();
            check(layout.slice(&at), named.slice(&at));
            let rest = named.slice_named([(name.as_str(), 0)]).unwrap();
            prop_assert!(rest.names().all(|other| other != name));
        }
    }

    /// A refusal has at most 200 characters, also with long names, and the assumption of the plain
    /// layout.
    #[test]
    fn refusals_are_short(
        layout in prop_oneof![layouts(64), symbolic_layouts(64).prop_map(|(layout, _)| layout)],
        tiler in tilers(3),
        other in layouts(16),
    ) {
        let name = |mode| format!("mode {mode}, the rows of the first operand before they are padded");
        let named = layout.named((0..layout.rank()).map(name)).unwrap();
        for (plain, named) in [
            (layout.logical_divide(&tiler), named.logical_divide(&tiler)),
            (layout.flat_divide(&other), named.flat_divide(&other)),
            (layout.zipped_product(&tiler), named.zipped_product(&tiler)),
            (layout.blocked_product(&other), named.blocked_product(&other)),
        ] {
            let (Err(plain), Err(named)) = (plain, named) else { continue };
            let text = named.to_string();
            prop_assert!(text.chars().count() <= 200, "{}", text);
            prop_assert_eq!(plain.assumption(), named.assumption());
            if let Some(assumption) = plain.assumption() {
                prop_assert!(text.ends_with(&format!("; assume {assumption}")), "{}", text);
            }
        }
    }
}

#[test]
fn tilers_of_the_whole_see_one_mode() -> Result<(), LayoutError> {
    let a = layout!((4, 6) : (6, 1)).named(["m", "k"])?;
    let of = |named: NamedLayout| {
        named.to_string().split_once(" of ").map(|(_, names)| names.to_owned()).unwrap()
    };
    let (pair, tile) = ("((m,k),tiles of (m,k))", layout!(12 : 1));
    assert_eq!(of(a.logical_divide(&tile)?), pair);
    assert_eq!(of(a.zipped_divide(&tile)?), pair);
    assert_eq!(
        a.flat_divide(&tile)?.to_string(),
        "(4,3,2):(6,1,3) of ((m,k),(m,k),tiles of (m,k))"
    );
    let row = layout!(24 : 1).named(["m"])?;
    assert_eq!(row.logical_divide(&layout!(4 : 1))?.to_string(), "(4,6):(1,4) of (m,tiles of m)");
    let block = layout!((2, 2)).named(["m", "k"])?;
    assert_eq!(of(block.tiled_product(&layout!((3, 4)))?), "((m,k),tiles of (m,k),tiles of (m,k))");
    assert_eq!(of(block.blocked_product(&layout!((3, 4, 5)))?), "(m,k,tiles)");
    Ok(())
}

#[test]
fn names_are_checked() {
    let a = layout!((4, 6) : (6, 1));
    let error = |names: &[&str]| a.named(names.iter().copied()).unwrap_err();
    assert_eq!(error(&["m"]), LayoutError::Name(NameError::Count { modes: 2, names: 1 }));
    assert_eq!(error(&["m", ""]), LayoutError::Name(NameError::Empty { mode: 1 }));
    let repeated = |name: &str| LayoutError::Name(NameError::Repeated { name: name.to_owned() });
    assert_eq!(error(&["k", "k"]), repeated("k"));
    let a = a.named(["m", "k"]).unwrap();
    let missing = NameError::Missing { name: "n".to_owned(), names: "(m,k)".to_owned() };
    assert_eq!(a.index_of("n").unwrap_err(), LayoutError::Name(missing));
    assert_eq!(a.slice_named([("k", 0), ("k", 1)]).unwrap_err(), repeated("k"));
    // Parts of one mode have its name, so the name alone does not tell them apart.
    let parts = a.logical_divide(&tiler!(2, 3)).unwrap().slice(&coord!((_, _), 0)).unwrap();
    assert_eq!(parts.to_string(), "(2,2):(6,12) of (m,m)");
    assert_eq!(parts.mode("m").unwrap_err(), repeated("m"));
}

/// Errors have the operation, the layout with its names, and the name of the mode.
#[test]
fn errors_name_modes() -> Result<(), LayoutError> {
    let a = layout!((4, (6, 5)) : (1, (4, 25))).named(["m", "k"])?;
    let check = |result: Result<NamedLayout, LayoutError>, expected: &str| {
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    let of = "(4,(6,5)):(1,(4,25)) of (m,k)";
    // A text that would be longer than 200 characters is cut; the cause has all of it.
    let error = a.zipped_divide(&tiler!(2, 3:4)).unwrap_err();
    expect!["`zipped_divide` of (4,(6,5)):(1,(4,25)) of (m,k): in mode k: (6,5):(4,25) o 3:4 is not a layout: steps of 4 do not line up with the modes of (6,5):(4,25); choose a stride and an extent that divide i.."].assert_eq(&error.to_string());
    let plain = a.layout().get(&[1])?.zipped_divide(&layout!(3 : 4)).unwrap_err();
    assert_eq!(error.cause(), plain.cause());
    check(
        a.flat_divide(&tiler!(2, 2, 2)),
        &format!("`flat_divide` of {of}: {}", LayoutError::TooManyModes { tiler: 3, layout: 2 }),
    );
    check(
        a.slice(&coord!(_, (1, (2, _)))),
        &format!("`slice` of {of}: in mode k.1: expected an integer, but found the tuple (2,_)"),
    );
    check(
        a.select(&[0, 2]),
        &format!("`select` of {of}: there is no mode 2; the tuple has 2 modes"),
    );
    // The assumption about a symbol stays, although the mode has a name.
    let a = "(4,(4,4,2)):(1,(1,n,16))".parse::<Layout>()?.named(["m", "k"])?;
    let error = a.logical_divide(&tiler!(2, 6:1)).unwrap_err();
    expect![[r#"
        `logical_divide` of (4,(4,4,2)):(1,(1,n,16)) of (m,k): in mode k: (4,4,2):(1,n,16) o 6:1 is not a layout: steps of 1 do not line up with the modes of (4,4,2):(1,n,16); choose a stride..; assume n == 4"#]]
    .assert_eq(&error.to_string());
    assert!(error.assumption().is_some());
    Ok(())
}
