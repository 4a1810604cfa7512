//! Text tables whose columns are as wide as their widest cell.

use std::fmt;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left, for text.
    Left,
    /// Right, for numbers.
    Right,
}

/// A table under construction; prints with a header and two spaces between columns.
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows, with these column titles.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            columns: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(title, _)| (*title).to_owned()).collect()],
        }
    }

    /// Adds a row with one cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |at: usize| {
            self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| width(at).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, align), &width) in row.iter().zip(&self.columns).zip(&widths) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_do_not_trail() {
        let mut table = Table::new(&[("name", Align::Left), ("us", Align::Right)]);
        table.row(["a".to_owned(), "10.5".to_owned()]);
        assert_eq!(table.to_string(), "name    us\na     10.5\n");
        table.row(["longer name".to_owned(), String::new()]);
        assert!(table.to_string().ends_with("longer name\n"));
    }
}
