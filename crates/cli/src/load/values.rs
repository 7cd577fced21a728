//! What values a source makes: records of fields, or JSON text.

use crate::bytes::printable;
use crate::failure::{Failure, Result};
use crate::fields::Type;
use clap::ValueEnum;

/// What becomes of a row, a line or a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Values {
    /// A record of fields, which can be indexed
    #[default]
    Fields,
    /// JSON text
    Json,
}

/// A column of csv and its type, as typed after `--type`.
#[derive(Clone, Debug)]
pub(crate) struct ColumnType {
    column: String,
    kind: Type,
}

impl ColumnType {
    /// Reads `COLUMN=TYPE`.
    pub(super) fn parse(typed: &str) -> Result<ColumnType, String> {
        let types = "text, integer, float or boolean";
        let (column, kind) = typed
            .rsplit_once('=')
            .ok_or_else(|| format!("write it as COLUMN=TYPE, where TYPE is {types}"))?;
        let kind = match kind {
            "text" => Type::Text,
            "integer" => Type::Integer,
            "float" => Type::Float,
            "boolean" => Type::Boolean,
            _ => return Err(format!("no type {kind:?}, use {types}")),
        };
        Ok(ColumnType { column: column.to_owned(), kind })
    }
}

/// The type of each column: text where nothing else was asked for.
///
/// # Errors
/// `Usage`: there is no such column, or it stands twice.
pub(super) fn types_of(columns: &[String], asked: &[ColumnType]) -> Result<Vec<Type>> {
    let mut types: Vec<Option<Type>> = vec![None; columns.len()];
    for ColumnType { column, kind } in asked {
        // An empty file has no columns and no rows.
        let Some(at) = columns.iter().position(|name| name == column) else {
            match columns.is_empty() {
                true => continue,
                false => return Err(no_column(column, columns)),
            }
        };
        if types[at].replace(*kind).is_some() {
            return Err(Failure::usage(format!(
                "--type: column {column:?} stands twice: keep one"
            )));
        }
    }
    Ok(types.into_iter().map(|kind| kind.unwrap_or(Type::Text)).collect())
}

/// The failure of one who names a column that is not there.
pub(super) fn no_column(name: &str, columns: &[String]) -> Failure {
    let names = printable(columns.join(", ").as_bytes());
    Failure::usage(format!("no column {name:?}: there are {names}"))
}
