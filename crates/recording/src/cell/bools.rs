//! Columns of yes and no.

use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;

use super::{Cell, Value};

impl Cell for bool {
    const NULLABLE: bool = false;
    const TYPE: &'static str = "bool";
    type Builder = BoolBuilder;
    type Reader = BooleanArray;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.0.append_value(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.0.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        array
            .as_boolean_opt()
            .filter(|a| a.null_count() == 0)
            .cloned()
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.value(row)
    }
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}

impl Cell for Option<bool> {
    const NULLABLE: bool = true;
    const TYPE: &'static str = "bool";
    type Builder = BoolBuilder;
    type Reader = BooleanArray;
    fn data_type() -> DataType {
        DataType::Boolean
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.0.append_option(self);
    }
    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        Arc::new(builder.0.finish())
    }
    fn reader(array: &ArrayRef) -> Option<Self::Reader> {
        array.as_boolean_opt().cloned()
    }
    fn get(reader: &Self::Reader, row: usize) -> Self {
        reader.is_valid(row).then(|| reader.value(row))
    }
    fn value(&self) -> Value<'_> {
        (*self).into()
    }
}

/// A boolean column being written (Arrow's own builder has no `Default`).
pub struct BoolBuilder(BooleanBuilder);

impl Default for BoolBuilder {
    fn default() -> Self {
        BoolBuilder(BooleanBuilder::new())
    }
}
