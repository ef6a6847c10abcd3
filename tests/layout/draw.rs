//! Drawings: the cells against the layout that they show, the forms against their grammars.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use tilewright::layout::{
    ComposedLayout, Drawing, Int, IntTuple, Layout, LayoutError, Shading, Swizzle, layout, shape,
    tiler,
};

use crate::support::skip::skip;

#[path = "../../examples/layouts.rs"]
mod layouts_example;

// ---- a small reader of XML ----

#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: HashMap<String, String>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn number(&self, attribute: &str) -> i64 {
        self.attributes[attribute].parse().expect("whole pixels")
    }

    /// All elements below with the name, in order.
    fn all<'a>(&'a self, name: &str, out: &mut Vec<&'a Element>) {
        for child in &self.children {
            if child.name == name {
                out.push(child);
            }
            child.all(name, out);
        }
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let end = rest[at..].find(';').expect("an entity ends") + at;
        out.push(match &rest[at + 1..end] {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("the entity {other}"),
        });
        rest = &rest[end + 1..];
    }
    assert!(!rest.contains('<'));
    out + rest
}

/// Reads one document; panics where it is not well formed.
fn xml(text: &str) -> Element {
    let mut open = vec![Element::default()];
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        open.last_mut().unwrap().text.push_str(&unescaped(&rest[..at]));
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let element = open.pop().unwrap();
            assert_eq!(element.name, name, "tags nest");
            open.last_mut().expect("one tag less is open").children.push(element);
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, mut list) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut element = Element { name: name.to_owned(), ..Element::default() };
        while !list.trim().is_empty() {
            let (name, after) = list.split_once("=\"").expect("an attribute has a value");
            let (value, after) = after.split_once('"').expect("a value is closed");
            let first = element.attributes.insert(name.trim().to_owned(), unescaped(value));
            assert!(first.is_none(), "the attribute {name} stands twice");
            list = after;
        }
        if empty {
            open.last_mut().unwrap().children.push(element);
        } else {
            open.push(element);
        }
    }
    assert!(rest.trim().is_empty());
    let mut root = open.pop().unwrap();
    assert!(open.is_empty(), "all tags are closed");
    assert_eq!(root.children.len(), 1, "one root");
    root.children.pop().unwrap()
}

/// A cell of an SVG picture.
#[derive(Debug)]
struct Cell {
    coord: String,
    label: String,
    colour: String,
    at: [i64; 4],
}

/// The cells with a label, in the order of the document. Checks what holds for every picture.
fn cells(drawing: &Drawing) -> Vec<Cell> {
    let text = drawing.svg().expect("it has a picture");
    assert_eq!(drawing.svg().as_ref(), Ok(&text), "the same bytes again");
    let root = xml(&text);
    assert_eq!(root.name, "svg");
    let (width, height) = (root.number("width"), root.number("height"));
    assert_eq!(root.attributes["viewBox"], format!("0 0 {width} {height}"));
    let mut groups = Vec::new();
    root.all("g", &mut groups);
    let mut cells = Vec::new();
    for group in groups {
        let [title, rect, lines @ ..] = group.children.as_slice() else { continue };
        if (title.name.as_str(), rect.name.as_str()) != ("title", "rect") {
            continue;
        }
        let (coord, label) = title.text.split_once(" -> ").expect("a coordinate and a label");
        let lines: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines.join(" "), label);
        let at = ["x", "y", "width", "height"].map(|name| rect.number(name));
        assert!(at[0] > 0 && at[1] > 0 && at[0] + at[2] < width && at[1] + at[3] < height);
        cells.push(Cell {
            coord: coord.to_owned(),
            label: label.to_owned(),
            colour: rect.attributes["fill"].clone(),
            at,
        });
    }
    // No two cells overlap: they all have one size and stand at least a line apart.
    let corners: BTreeSet<[i64; 2]> = cells.iter().map(|c| [c.at[0], c.at[1]]).collect();
    assert_eq!(corners.len(), cells.len());
    let rows: BTreeMap<i64, Vec<i64>> = corners.iter().fold(BTreeMap::new(), |mut rows, [x, y]| {
        rows.entry(*y).or_insert_with(Vec::new).push(*x);
        rows
    });
    let [_, _, wide, tall] = cells.first().map_or([0; 4], |cell| cell.at);
    assert!(cells.iter().all(|cell| [cell.at[2], cell.at[3]] == [wide, tall]));
    assert!(rows.values().all(|xs| xs.is_sorted_by(|a, b| a + wide < *b)));
    check_latex(drawing, cells.len());
    cells
}

/// Braces balance, every cell is filled and nothing is left unescaped.
fn check_latex(drawing: &Drawing, cells: usize) {
    let text = drawing.latex().expect("it has a picture");
    let (mut depth, mut before) = (0i64, '\n');
    for c in text.lines().skip(1).flat_map(str::chars) {
        depth += match c {
            '{' if before != '\\' => 1,
            '}' if before != '\\' => -1,
            _ => 0,
        };
        assert!(depth >= 0);
        before = c;
    }
    assert_eq!(depth, 0);
    let body = text.split_once("\\begin{tikzpicture}").expect("a picture").1;
    assert!(body.ends_with("\\end{tikzpicture}\n\\end{document}\n"));
    assert!(body.matches("\\ground{").count() > cells, "a ground per table and each cell");
    let rest = body.replace("\\_", "");
    assert!(!rest.contains(['_', '%', '&', '$', '~', '^', '<', '>']), "{rest}");
}

/// One cell per coordinate, whose label is the value there.
fn check_layout(layout: &Layout) {
    let cells = cells(&layout.draw());
    let size = layout.size().unwrap().to_static().unwrap();
    assert_eq!(i64::try_from(cells.len()), Ok(size), "{layout}");
    let mut seen = BTreeSet::new();
    for cell in &cells {
        let coord: IntTuple = cell.coord.parse().unwrap();
        assert!(coord.congruent(&layout.shape().to_owned()));
        assert_eq!(layout.apply(&coord).unwrap().to_string(), cell.label, "{layout}");
        assert!(seen.insert(cell.coord.clone()));
    }
    // Down is the first mode, to the right the second.
    if layout.rank() == 2 {
        let place = |cell: &Cell| -> (i64, i64) {
            let coord: IntTuple = cell.coord.parse().unwrap();
            let flat = |i: usize| {
                let (c, s) = (coord.mode(&[i]).unwrap(), layout.get(&[i]).unwrap());
                let compact = Layout::compact(s.shape().to_owned());
                compact.crd2idx(c.to_owned()).unwrap().to_static().unwrap()
            };
            (flat(0), flat(1))
        };
        let mut ordered: Vec<&Cell> = cells.iter().collect();
        ordered.sort_by_key(|cell| place(cell));
        assert!(ordered.is_sorted_by_key(|cell| (cell.at[1], cell.at[0])));
    }
}

#[test]
fn cells_show_the_values_of_layouts() {
    for text in [
        "1:0",
        "5:3",
        "(7):(2)",
        "33:2",
        "100:1",
        "(4,8):(8,1)",
        "((2,2),(2,4)):((1,4),(2,8))",
        "(3,1):(0,0)",
        "(2,3,4):(12,4,1)",
        "(2,2,2,3):(1,2,4,8)",
        "(2,3):(-1,4)",
        "(4,8):(1@0,1@1)",
        "((2,2),3):((1@0@0,1@1@0),1@1)",
        "((3,(2,2)),(4,2)):((1,(3,6)),(12,48))",
    ] {
        check_layout(&text.parse().unwrap());
    }
    let extents = [1, 2, 3, 5];
    for (m, n) in extents.iter().flat_map(|m| extents.map(|n| (*m, n))) {
        for (d, e) in [(1, 0), (0, 7), (1, i64::from(m)), (i64::from(n), 1), (5, 2)] {
            check_layout(&layout!((m, n):(d, e)));
            check_layout(&layout!(((m, 2), n):((d, 3), e)));
        }
    }
}

fn check_text(drawing: &Drawing, expected: &Expect) {
    expected.assert_eq(&format!("{}\n", drawing.text().unwrap()));
}

#[test]
fn text_of_a_matrix_is_the_table_of_print_layout() {
    check_text(
        &layout!(((2, 2), 4):((1, 4), 8)).draw(),
        &expect![[r#"
            ((2,2),4):((1,4),8)
                   0    1    2    3
                +----+----+----+----+
             0  |  0 |  8 | 16 | 24 |
                +----+----+----+----+
             1  |  1 |  9 | 17 | 25 |
                +----+----+----+----+
             2  |  4 | 12 | 20 | 28 |
                +----+----+----+----+
             3  |  5 | 13 | 21 | 29 |
                +----+----+----+----+
        "#]],
    );
}

#[test]
fn text_of_vectors_and_slices() {
    check_text(
        &layout!(3:10).draw(),
        &expect![[r#"
            3:10
                   0    1    2
                +----+----+----+
                |  0 | 10 | 20 |
                +----+----+----+
        "#]],
    );
    check_text(
        &layout!(35:1).draw(),
        &expect![[r#"
            35:1
                   +0    +1    +2    +3    +4    +5    +6    +7    +8    +9   +10   +11   +12   +13   +14   +15
                +-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
             0  |   0 |   1 |   2 |   3 |   4 |   5 |   6 |   7 |   8 |   9 |  10 |  11 |  12 |  13 |  14 |  15 |
                +-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
            16  |  16 |  17 |  18 |  19 |  20 |  21 |  22 |  23 |  24 |  25 |  26 |  27 |  28 |  29 |  30 |  31 |
                +-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
            32  |  32 |  33 |  34 |     |     |     |     |     |     |     |     |     |     |     |     |     |
                +-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+-----+
        "#]],
    );
    check_text(
        &layout!((1, 2, 2):(0, 1, 2)).draw(),
        &expect![[r#"
        (1,2,2):(0,1,2)
        (_,_,0)
              0   1
            +---+---+
         0  | 0 | 1 |
            +---+---+
        (_,_,1)
              0   1
            +---+---+
         0  | 2 | 3 |
            +---+---+
    "#]],
    );
}

#[test]
fn text_of_thread_values_and_operations() {
    check_text(
        &layout!((2, 2):(1, 4)).draw_tv((2, 4)),
        &expect![[r#"
        (2,2):(1,4) in (2,4)
                  0       1       2       3
            +-------+-------+-------+-------+
         0  | T0 V0 |       | T0 V1 |       |
            +-------+-------+-------+-------+
         1  | T1 V0 |       | T1 V1 |       |
            +-------+-------+-------+-------+
    "#]],
    );
    let (a, tile) = (layout!((2, 4):(4, 1)), tiler!(2, 2));
    let divided = a.zipped_divide(&tile).unwrap();
    check_text(
        &Drawing::divide("zipped_divide", &a, &tile, &divided),
        &expect![[r#"
        layout  (2,4):(4,1)
              0   1   2   3
            +---+---+---+---+
         0  | 0 | 1 | 2 | 3 |
            +---+---+---+---+
         1  | 4 | 5 | 6 | 7 |
            +---+---+---+---+

        tiler  (2,2)
                  0       1
            +-------+-------+
         0  | (0,0) | (0,1) |
            +-------+-------+
         1  | (1,0) | (1,1) |
            +-------+-------+

        zipped_divide  ((2,2),(1,2)):((4,1),(0,2))
              0   1
            +---+---+
         0  | 0 | 2 |
            +---+---+
         1  | 4 | 6 |
            +---+---+
         2  | 1 | 3 |
            +---+---+
         3  | 5 | 7 |
            +---+---+
    "#]],
    );
}

/// Each holder of an element is the label there, and elements without one are empty.
fn check_tv(layout: &Layout, tile: &IntTuple) {
    let found: HashMap<String, String> =
        cells(&layout.draw_tv(tile)).into_iter().map(|cell| (cell.coord, cell.label)).collect();
    let modes: Vec<i64> =
        layout.modes().map(|mode| mode.size().unwrap().to_static().unwrap()).collect();
    let mut expected: HashMap<String, Vec<String>> = HashMap::new();
    let elements = Layout::identity(tile.clone()).unwrap();
    for (t, v) in (0..modes[0]).flat_map(|t| (0..modes[1]).map(move |v| (t, v))) {
        let element = elements.apply(layout.apply((t, v)).unwrap()).unwrap();
        expected.entry(element.to_string()).or_default().push(format!("T{t} V{v}"));
    }
    assert_eq!(found.len(), expected.len());
    for (coord, holders) in expected {
        let label = match holders.len() {
            1 => holders[0].clone(),
            count => format!("{} x{count}", holders[0]),
        };
        assert_eq!(found[&coord], label, "{layout} at {coord}");
    }
}

#[test]
fn thread_value_pictures_show_who_holds_what() {
    check_tv(&layout!(((4, 8), (2, 2)):((32, 1), (16, 8))), &shape!(16, 8));
    check_tv(&layout!(((4, 8), 2):((16, 1), 8)), &shape!(8, (4, 2)));
    check_tv(&layout!((4, 2):(2, 0)), &shape!(2, 4));
    check_tv(&layout!((3, 2):(1, 3)), &shape!(2, 2, 2));
    check_tv(&"(2,2):(1@0,1@1)".parse().unwrap(), &shape!(2, 3));
}

#[test]
fn threads_have_one_colour_each() {
    let mma = layout!(((4, 8), (2, 2)):((32, 1), (16, 8)));
    let mut colours: HashMap<i64, String> = HashMap::new();
    for cell in cells(&mma.draw_tv((16, 8))) {
        let thread: i64 = cell.label[1..].split(' ').next().unwrap().parse().unwrap();
        let colour = colours.entry(thread % 8).or_insert_with(|| cell.colour.clone());
        assert_eq!(*colour, cell.colour);
    }
    assert_eq!(colours.values().collect::<BTreeSet<_>>().len(), 8);
}

#[test]
fn swizzles_are_permutations_with_one_colour_per_row_and_column() {
    for (b, m, s) in [(0, 0, 0), (1, 0, 1), (2, 4, 3), (3, 4, 3), (3, 0, -3), (2, 3, -2)] {
        let swizzle = Swizzle::new(b, m, s).unwrap();
        let cells = cells(&swizzle.draw());
        assert_eq!(cells.len(), 1 << (b + s.abs()));
        let labels: BTreeSet<i64> = cells.iter().map(|c| c.label.parse().unwrap()).collect();
        assert_eq!(labels, (0..1 << (b + s.abs())).collect());
        for cell in &cells {
            let (row, column) = cell.coord[1..cell.coord.len() - 1].split_once(',').unwrap();
            let (row, column): (i64, i64) = (row.parse().unwrap(), column.parse().unwrap());
            let unit = (row << s.abs()) + column;
            assert_eq!(cell.label, (swizzle.apply(unit << m) >> m).to_string());
        }
        if b == 3 && s == 3 {
            // Each row has all eight colours, and so has each column.
            for axis in 0..2 {
                let mut lines: HashMap<i64, BTreeSet<&str>> = HashMap::new();
                for cell in &cells {
                    lines.entry(cell.at[axis]).or_default().insert(&cell.colour);
                }
                assert!(lines.values().all(|colours| colours.len() == 8));
            }
        }
    }
}

#[test]
fn composed_layouts_show_their_values() {
    for text in [
        "S<3,0,3> o 0 o (8,8):(8,1)",
        "S<2,1,3> o 5 o (4,(2,4)):(8,(1,2))",
        "(4,2):(2,1) o 1 o (2,2):(1,2)",
    ] {
        let layout: ComposedLayout = text.parse().unwrap();
        let cells = cells(&layout.draw());
        assert_eq!(layout.size().unwrap(), i64::try_from(cells.len()).unwrap());
        for cell in cells {
            let coord: IntTuple = cell.coord.parse().unwrap();
            assert_eq!(layout.apply(&coord).unwrap().to_string(), cell.label);
        }
    }
}

/// In the pictures of input and result, a value has one colour, and two values have one colour if
/// they are in the same tile (and only then, while there are at most eight tiles).
fn check_tiles(picture: &Drawing, input: &Layout, zipped: &Layout) {
    let tile = zipped.get(&[0]).unwrap().size().unwrap().to_static().unwrap();
    let size = zipped.size().unwrap().to_static().unwrap();
    let tiles: HashMap<String, i64> =
        (0..size).map(|i| (zipped.at(i).unwrap().to_string(), i / tile)).collect();
    let cells = cells(picture);
    let inputs = usize::try_from(input.size().unwrap().to_static().unwrap()).unwrap();
    let outputs = usize::try_from(size).unwrap();
    let of_both = cells[..inputs].iter().chain(&cells[cells.len() - outputs..]);
    let mut colours: HashMap<i64, &str> = HashMap::new();
    for cell in of_both {
        let colour = colours.entry(tiles[&cell.label]).or_insert(&cell.colour);
        assert_eq!(*colour, cell.colour, "{}", cell.label);
    }
    if size / tile <= 8 {
        let count = i64::try_from(colours.values().collect::<BTreeSet<_>>().len()).unwrap();
        assert_eq!(count, size / tile);
    }
}

#[test]
fn operations_colour_what_belongs_together() {
    let a = layout!((4, 8):(8, 1));
    for tile in [tiler!(2, 4), tiler!(4:1, 2:4), tiler!(2, _), tiler!((2, 2)), tiler!(1, 1)] {
        // A nested tiler needs a nested mode.
        let a = if tile.rank() == 1 { layout!(((4, 8)):((8, 1))) } else { a.clone() };
        let divided = a.logical_divide(&tile).unwrap();
        let whole = if tile.to_string() == "(2,_)" { tiler!(2, 8) } else { tile.clone() };
        let zipped = a.zipped_divide(&whole).unwrap();
        check_tiles(&Drawing::divide("logical_divide", &a, &tile, &divided), &a, &zipped);
    }
    let (v, t) = (layout!(32:1), layout!(4:2));
    let zipped = v.zipped_divide(&t).unwrap();
    check_tiles(&Drawing::divide("zipped_divide", &v, &t, &zipped), &v, &zipped);

    let (block, tile) = (layout!((2, 5):(5, 1)), layout!((3, 4):(1, 3)));
    let zipped = block.zipped_product(&tile).unwrap();
    for result in [block.blocked_product(&tile).unwrap(), block.raked_product(&tile).unwrap()] {
        check_tiles(&Drawing::product("product", &block, &tile, &result), &block, &zipped);
    }
}

#[test]
fn compositions_keep_the_colours_of_the_left_side() {
    let (a, b) = (layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1)));
    let cells = cells(&Drawing::composition(&a, &b, &a.composition(&b).unwrap()));
    let (left, rest) = cells.split_at(12);
    let (right, result) = rest.split_at(12);
    for (b, r) in right.iter().zip(result) {
        assert_eq!(b.colour, r.colour);
        let on_left = left.iter().find(|cell| cell.label == r.label).unwrap();
        assert_eq!(on_left.colour, r.colour);
        assert_eq!(a.at(b.label.parse().unwrap()).unwrap().to_string(), r.label);
    }
}

#[test]
fn shadings() {
    let tile = layout!((4, 128):(128, 1)).draw().shaded(Shading::Banks { element_bits: 16 });
    let mut columns: HashMap<i64, BTreeSet<String>> = HashMap::new();
    for cell in cells(&tile) {
        let value: i64 = cell.label.parse().unwrap();
        columns.entry(value * 2 % 128 / 16).or_default().insert(cell.colour);
    }
    assert!(columns.len() == 8 && columns.values().all(|colours| colours.len() == 1));
    let plain = cells(&layout!((2, 2)).draw().shaded(Shading::Plain));
    assert!(plain.iter().all(|cell| cell.colour == "#FFFFFF"));
    // Periods and runs of zero are read as one, and negative values have a colour like all others.
    let odd = layout!((2, 2):(-1, -2)).draw().shaded(Shading::Cycle { run: 0, period: 0 });
    assert_eq!(cells(&odd).iter().map(|c| &c.colour).collect::<BTreeSet<_>>().len(), 1);
    let long = layout!(64:1).draw().shaded(Shading::Cycle { run: 1, period: 64 });
    assert_eq!(cells(&long).iter().map(|c| &c.colour).collect::<BTreeSet<_>>().len(), 64);
}

#[test]
fn texts_are_escaped() {
    let hostile = "<&\"'>\u{1}\n_%$#{}~^\\é";
    let picture = Drawing::beside([(hostile, layout!(2:1).draw())]);
    let svg = picture.svg().unwrap();
    let mut texts = Vec::new();
    let root = xml(&svg);
    root.all("text", &mut texts);
    assert!(texts.iter().any(|text| text.text == "<&\"'> _%$#{}~^\\é"), "{svg}");
    let latex = picture.latex().unwrap();
    assert!(latex.contains(
        "{\\textless{}\\&\\textquotedbl{}'\\textgreater{} \\_\\%\\$\\#\\{\\}\\textasciitilde{}\\textasciicircum{}\\textbackslash{}é}"
    ));
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let check = |drawing: Drawing, expected: LayoutError| {
        assert_eq!(drawing.text(), Err(expected.clone()));
        assert_eq!(drawing.svg(), Err(expected.clone()));
        assert_eq!(drawing.latex(), Err(expected.clone()));
        assert!(drawing.to_string().ends_with(&format!("\nno picture: {expected}")));
    };
    let large = || LayoutError::TooLarge {
        what: "the number of cells of the picture",
        limit: Drawing::MAX_CELLS,
    };
    let n = Int::symbol("n");
    check(
        Layout::compact(shape!(4, n.clone())).draw(),
        LayoutError::NotStatic { value: "n".to_owned() },
    );
    check(
        Layout::new((4, 2), (1, n)).unwrap().draw(),
        LayoutError::NotStatic { value: "n".to_owned() },
    );
    check(layout!((128, 129)).draw(), large());
    check(layout!((i64::MAX, i64::MAX):(0, 0)).draw(), large());
    check(
        Drawing::beside([("a", layout!((128, 128)).draw()), ("b", layout!(1:0).draw())]),
        large(),
    );
    check(Swizzle::new(8, 0, 8).unwrap().draw(), large());
    check(layout!((0, 2)).draw(), LayoutError::ExtentNotPositive { extent: Int::ZERO });
    check(layout!(4:1).draw_tv((2, 2)), LayoutError::RankMismatch { expected: 2, found: 1 });
    check(
        layout!((2, 3):(1, 2)).draw_tv((2, 2)),
        LayoutError::OutsideShape { coord: "4".to_owned(), shape: "(2,2)".to_owned() },
    );
    check(
        "(2,2):(1@0,2@1)".parse::<Layout>().unwrap().draw_tv((2, 2)),
        LayoutError::OutsideShape { coord: "(0,2)".to_owned(), shape: "(2,2)".to_owned() },
    );
    // The largest picture that there is.
    assert!(layout!((128, 128)).draw().svg().is_ok());
}

/// The pictures of `docs/drawing.md`. With `TILEWRIGHT_BLESS=1` they are written anew.
#[test]
fn pictures_of_the_documentation_are_current() {
    let (a, tile) = (layout!((4, 8):(8, 1)), tiler!(2, 4));
    let divided = a.logical_divide(&tile).unwrap();
    let (block, over) = (layout!((2, 5):(5, 1)), layout!((3, 4):(1, 3)));
    let raked = block.raked_product(&over).unwrap();
    let swizzled: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse().unwrap();
    let pictures = [
        ("layout", layout!(((2, 2), (2, 4)):((1, 4), (2, 8))).draw()),
        ("logical_divide", Drawing::divide("logical_divide", &a, &tile, &divided)),
        ("raked_product", Drawing::product("raked_product", &block, &over, &raked)),
        ("thread_value", layout!(((4, 8), 2):((16, 1), 8)).draw_tv((8, 8))),
        ("swizzle", swizzled.draw()),
    ];
    check_pictures("docs/images", &pictures);
}

/// The pictures of the book. With `TILEWRIGHT_BLESS=1` they are written anew.
#[test]
fn pictures_of_the_book_are_current() {
    let (rows, tile) = (layout!((4, 8):(8, 1)), tiler!(2, 4));
    let divided = rows.logical_divide(&tile).unwrap();
    let (block, over) = (layout!((2, 3):(3, 1)), layout!((2, 2):(1, 2)));
    let raked = block.raked_product(&over).unwrap();
    let every_second = layout!(4:8);
    let composed = rows.composition(&every_second).unwrap();
    let swizzled: ComposedLayout = "S<2,0,2> o 0 o (4,4):(4,1)".parse().unwrap();
    let banks = |layout: Drawing| layout.shaded(Shading::Cycle { run: 1, period: 8 });
    let swizzled_tile: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse().unwrap();
    let pictures = [
        ("row_major", rows.draw()),
        ("blocked", layout!(((2, 2), (2, 4)):((1, 4), (2, 8))).draw()),
        ("thread_value", layout!(((4, 8), 2):((16, 1), 8)).draw_tv((8, 8))),
        ("composition", Drawing::composition(&rows, &every_second, &composed)),
        ("divide", Drawing::divide("logical_divide", &rows, &tile, &divided)),
        ("raked", Drawing::product("raked_product", &block, &over, &raked)),
        ("swizzle", swizzled.draw()),
        ("banks_plain", banks(layout!((8, 8):(8, 1)).draw())),
        ("banks_padded", banks(layout!((8, 8):(9, 1)).draw())),
        ("banks_swizzled", banks(swizzled_tile.draw())),
    ];
    check_pictures("book/src/images", &pictures);
}

/// Asserts that the folder has these pictures as the library draws them.
fn check_pictures(folder: &str, pictures: &[(&str, Drawing)]) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(folder);
    for (name, picture) in pictures {
        let (file, svg) = (root.join(format!("{name}.svg")), picture.svg().unwrap());
        if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
            fs::create_dir_all(&root).unwrap();
            fs::write(&file, &svg).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == svg,
            "{folder}/{name}.svg is not what the library draws; write it anew with TILEWRIGHT_BLESS=1"
        );
    }
}

/// With `TILEWRIGHT_PDFLATEX` the name of a LaTeX engine, every kind of picture is compiled.
#[test]
fn latex_compiles() {
    let Some(engine) = std::env::var_os("TILEWRIGHT_PDFLATEX") else {
        return skip("set TILEWRIGHT_PDFLATEX to the name of a LaTeX engine");
    };
    let folder = std::env::temp_dir().join(format!("tilewright-latex-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let a = layout!((4, 8):(8, 1));
    let pictures = [
        a.draw(),
        layout!((2, 2, 2):(1, 2, 4)).draw(),
        layout!((4, 2):(1, 4)).draw_tv((2, 4)),
        Swizzle::new(3, 4, 3).unwrap().draw(),
        Drawing::divide(
            "logical_divide",
            &a,
            &tiler!(2, 4),
            &a.logical_divide(&tiler!(2, 4)).unwrap(),
        ),
        Drawing::beside([("<&\"'>_%$#{}~^\\|-", a.draw())]),
        layout!((64, 64)).draw(),
    ];
    for (i, picture) in pictures.iter().enumerate() {
        let file = folder.join(format!("p{i}.tex"));
        fs::write(&file, picture.latex().unwrap()).unwrap();
        let run = std::process::Command::new(&engine)
            .args(["-interaction=nonstopmode", "-halt-on-error"])
            .arg(&file)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_example_draws_threads_and_values() {
    let text = layouts_example::run().unwrap();
    assert!(text.contains("T7"), "{text}");
    assert!(text.lines().count() > 4, "{text}");
}
