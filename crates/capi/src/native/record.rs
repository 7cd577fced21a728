//! Records of fields.

use super::data::get;
use super::error::{Failure, Outcome, bytes, esker_code, place, run, text};
use super::store::{esker_keyspace, esker_snapshot, moment};
use crate::boundary::start_of;
use crate::handle::{self, Shell, handle};
use esker::fields::{FieldRef, FieldValue, Record};
use libc::{c_char, c_void, size_t};

/// Named values: a value of the store as a person sees it.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_record(Shell<Record>);
handle!(esker_record, Record, "esker_record");

/// What kind of value a field holds.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum esker_field_type {
    /// Nothing.
    ESKER_NULL = 0,
    /// `boolean`.
    ESKER_BOOL = 1,
    /// `integer`.
    ESKER_INT = 2,
    /// `number`.
    ESKER_FLOAT = 3,
    /// `data` and `len`, in UTF-8.
    ESKER_TEXT = 4,
    /// `data` and `len`.
    ESKER_BYTES = 5,
}

/// The value of a field. Of its members those count that the type names.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_field {
    /// A number of `esker_field_type`.
    pub kind: i32,
    /// Of `ESKER_BOOL`: 0 is false, everything else true.
    pub boolean: u8,
    /// Of `ESKER_INT`.
    pub integer: i64,
    /// Of `ESKER_FLOAT`.
    pub number: f64,
    /// Of `ESKER_TEXT` and `ESKER_BYTES`.
    pub data: *const c_char,
    /// Length of `data`.
    pub len: size_t,
}

use esker_field_type as Kind;

impl esker_field {
    /// The value as C sees it; text and bytes are lent.
    pub(super) fn of(value: FieldRef<'_>) -> esker_field {
        let mut field = esker_field {
            kind: Kind::ESKER_NULL as i32,
            boolean: 0,
            integer: 0,
            number: 0.0,
            data: std::ptr::null(),
            len: 0,
        };
        let mut lend = |kind: Kind, lent: &[u8]| {
            (field.data, field.len) = (start_of(lent), lent.len());
            kind
        };
        let kind = match value {
            FieldRef::Null => Kind::ESKER_NULL,
            FieldRef::Text(text) => lend(Kind::ESKER_TEXT, text.as_bytes()),
            FieldRef::Bytes(bytes) => lend(Kind::ESKER_BYTES, bytes),
            FieldRef::Bool(boolean) => {
                field.boolean = u8::from(boolean);
                Kind::ESKER_BOOL
            }
            FieldRef::Int(integer) => {
                field.integer = integer;
                Kind::ESKER_INT
            }
            FieldRef::Float(number) => {
                field.number = number;
                Kind::ESKER_FLOAT
            }
        };
        field.kind = kind as i32;
        field
    }

    /// The value that C means.
    ///
    /// # Safety
    /// As everywhere.
    pub(super) unsafe fn value<'a>(&self) -> Outcome<FieldRef<'a>> {
        // SAFETY: as the caller says.
        let lent = || unsafe { bytes(self.data.cast(), self.len) };
        Ok(match self.kind {
            kind if kind == Kind::ESKER_NULL as i32 => FieldRef::Null,
            kind if kind == Kind::ESKER_BOOL as i32 => FieldRef::Bool(self.boolean != 0),
            kind if kind == Kind::ESKER_INT as i32 => FieldRef::Int(self.integer),
            kind if kind == Kind::ESKER_FLOAT as i32 => FieldRef::Float(self.number),
            kind if kind == Kind::ESKER_BYTES as i32 => FieldRef::Bytes(lent()?),
            kind if kind == Kind::ESKER_TEXT as i32 => {
                let text = std::str::from_utf8(lent()?);
                FieldRef::Text(text.map_err(|_| Failure::invalid("the text is not UTF-8"))?)
            }
            kind => {
                return Err(Failure::invalid(format!("no kind of field has the number {kind}")));
            }
        })
    }
}

/// The value of a field that C means.
///
/// # Safety
/// As everywhere.
pub(super) unsafe fn field<'a>(value: *const esker_field) -> Outcome<FieldRef<'a>> {
    // SAFETY: as the caller says.
    unsafe {
        let value =
            value.as_ref().ok_or_else(|| Failure::invalid("the value of the field is NULL"))?;
        value.value()
    }
}

/// Makes a record without fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_create(record: *mut *mut esker_record) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe {
        let out = place(record)?;
        *out = handle::open(Record::new());
        Ok(())
    })
}

/// Frees a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_close(record: *mut esker_record) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(record)?) })
}

/// Sets a field, in the place of one of the same name. `name`: 1 to 255 bytes; that another is no
/// name is told when the record is put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_set(
    record: *mut esker_record,
    name: *const c_char,
    value: *const esker_field,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let value: FieldValue = field(value)?.to_value();
        handle::get_mut(record)?.set(text(name, "name of the field")?, value);
        Ok(())
    })
}

/// Removes a field, which need not be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_remove(
    record: *mut esker_record,
    name: *const c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        handle::get_mut(record)?.remove(text(name, "name of the field")?);
        Ok(())
    })
}

/// How many fields a record has; 0 of what is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_len(record: *const esker_record) -> size_t {
    // SAFETY: as everywhere.
    unsafe { handle::get(record).map_or(0, Record::len) }
}

/// What a field holds; text and bytes are good until the record changes. `found`: false if there is
/// no such field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_get(
    record: *const esker_record,
    name: *const c_char,
    value: *mut esker_field,
    found: *mut bool,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let (out, found) = (place(value)?, place(found)?);
        let held = handle::get(record)?.get(text(name, "name of the field")?);
        *out = esker_field::of(held.map_or(FieldRef::Null, FieldValue::as_ref));
        *found = held.is_some();
        Ok(())
    })
}

/// A field by its number in the order of names, from 0; all is good until the record changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_record_at(
    record: *const esker_record,
    number: size_t,
    name: *mut *const c_char,
    name_len: *mut size_t,
    value: *mut esker_field,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let (name, name_len, out) = (place(name)?, place(name_len)?, place(value)?);
        let held = handle::get(record)?.iter().nth(number);
        let (named, value) =
            held.ok_or_else(|| Failure::invalid(format!("the record has no field {number}")))?;
        (*name, *name_len) = (named.as_ptr().cast(), named.len());
        *out = esker_field::of(value.as_ref());
        Ok(())
    })
}

/// Sets a key to a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put_record(
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
    record: *const esker_record,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let keyspace = handle::get(keyspace)?.open()?;
        Ok(keyspace.put_record(bytes(key, key_len)?, handle::get(record)?)?)
    })
}

/// The record of a key, to be closed; NULL if the key is not there. A value that is no record is an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_record(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    key: *const c_void,
    key_len: size_t,
    record: *mut *mut esker_record,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(record)?;
        *out = std::ptr::null_mut();
        let keyspace = handle::get(keyspace)?.open()?;
        if let Some(value) = get(keyspace, bytes(key, key_len)?, moment(snapshot)?)? {
            *out = handle::open(Record::decode(&value)?);
        }
        Ok(())
    })
}
