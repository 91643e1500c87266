"""What Python knows of the compiled core: its version, constants, structures and functions.

Made from the headers of ``native/`` by ``python -m native.abi``: do not edit.
"""

from __future__ import annotations

import ctypes

_I32, _I64, _U64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
_SIZE, _PTR, _BYTES = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p

ABI = 31

# enum sh_entry
ENTRY_BYTE, ENTRY_SHORT, ENTRY_INT, ENTRY_LONG, ENTRY_CHAR, ENTRY_FLOAT, ENTRY_DOUBLE, ENTRY_BOOLEAN = range(8)

# enum sh_batch
(
    BATCH_START,
    BATCH_STOP,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_COUNT,
    BATCH_ATTRIBUTES,
    BATCH_TIME,
    BATCH_MAX_TIME,
    BATCH_PRODUCER,
    BATCH_EPOCH,
    BATCH_FIELDS,
) = range(11)

# enum sh_batch_end
BATCH_END_CUT, BATCH_END_FULL, BATCH_END_DAMAGED, BATCH_END_MAGIC = range(4)

# enum sh_kind
BYTE, SHORT, INT, LONG, CHAR, FLOAT, DOUBLE, BOOLEAN, ISO, EPOCH, DATE, TIME, DECIMAL, TEXT, TOKEN, NESTED = range(16)

# enum sh_wire
(
    WIRE_NULL,
    WIRE_BOOLEAN,
    WIRE_INT,
    WIRE_LONG,
    WIRE_FLOAT,
    WIRE_DOUBLE,
    WIRE_STRING,
    WIRE_BYTES,
    WIRE_ENUM,
    WIRE_FIXED,
    WIRE_UINT,
    WIRE_ULONG,
    WIRE_SINT,
    WIRE_SLONG,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_SFIXED32,
    WIRE_SFIXED64,
    WIRE_TIMESTAMP,
) = range(19)


class MapEntriesLayout(ctypes.Structure):
    """``struct sh_map_entries``."""

    _fields_ = [
        ("keys", _PTR),
        ("key_data", _PTR),
        ("key_size", _I64),
        ("values", _PTR),
        ("valid_values", _PTR),
        ("first_value", _I64),
        ("value_data", _PTR),
        ("value_size", _I64),
        ("total", _I64),
        ("width", _I64),
        ("null", _U64),
    ]


class MapRoomLayout(ctypes.Structure):
    """``struct sh_map_room``."""

    _fields_ = [
        ("keys", _PTR),
        ("key_data", _PTR),
        ("values", _PTR),
        ("valid_values", _PTR),
        ("value_data", _PTR),
    ]


class DirectoryFormLayout(ctypes.Structure):
    """``struct sh_directory_form``."""

    _fields_ = [
        ("names", _BYTES),
        ("names_size", _I64),
        ("count", _I64),
        ("starts", _PTR),
        ("record", _BYTES),
        ("record_size", _I64),
        ("places", _PTR),
    ]


class DirectoryLayout(ctypes.Structure):
    """``struct sh_directory``."""

    _fields_ = [
        ("form", _I64),
        ("path", _I64),
        ("packed", _I64),
        ("rows", _I64),
        ("time", _I64),
        ("epoch", _I64),
    ]


class DirectoriesLayout(ctypes.Structure):
    """``struct sh_directories``."""

    _fields_ = [
        ("forms", _PTR),
        ("form_count", _I64),
        ("paths", _BYTES),
        ("paths_size", _I64),
        ("packed", _PTR),
        ("packed_size", _I64),
    ]


class RecordFactsLayout(ctypes.Structure):
    """``struct sh_record_facts``."""

    _fields_ = [
        ("offsets", _PTR),
        ("times", _PTR),
        ("value_starts", _PTR),
        ("values", _PTR),
        ("key_starts", _PTR),
        ("keys", _PTR),
    ]


class KeyedLayout(ctypes.Structure):
    """``struct sh_keyed``."""

    _fields_ = [
        ("key", _U64),
        ("index", _I64),
    ]


class WordsLayout(ctypes.Structure):
    """``struct sh_words``."""

    _fields_ = [
        ("words", _PTR),
        ("width", _I64),
    ]


class TextsLayout(ctypes.Structure):
    """``struct sh_texts``."""

    _fields_ = [
        ("ends", _PTR),
        ("wide", _I64),
        ("valid", _PTR),
        ("first", _I64),
        ("count", _I64),
        ("data", _PTR),
        ("size", _I64),
    ]


class PartLayout(ctypes.Structure):
    """``struct sh_part``."""

    _fields_ = [
        ("row", _I64),
        ("ends", _PTR),
        ("data", _PTR),
        ("size", _I64),
    ]


class BoundsLayout(ctypes.Structure):
    """``struct sh_bounds``."""

    _fields_ = [
        ("keys", _PTR),
        ("key_count", _I64),
        ("words", _PTR),
        ("lengths", _PTR),
        ("count", _I64),
    ]


class WindowsLayout(ctypes.Structure):
    """``struct sh_windows``."""

    _fields_ = [
        ("windows", _PTR),
        ("shifts", _PTR),
        ("blocks", _I64),
        ("shift", _I64),
    ]


class StretchLayout(ctypes.Structure):
    """``struct sh_stretch``."""

    _fields_ = [
        ("file", _I64),
        ("offset", _I64),
        ("rows", _I64),
        ("window", _I64),
        ("source", _I64),
        ("sum", _I64),
    ]


class MovesLayout(ctypes.Structure):
    """``struct sh_moves``."""

    _fields_ = [
        ("origins", _PTR),
        ("places", _PTR),
        ("out", _PTR),
        ("count", _I64),
        ("room", _I64),
        ("done", _I64),
    ]


class FixedLayout(ctypes.Structure):
    """``struct sh_fixed``."""

    _fields_ = [
        ("prefix", _U64),
        ("null", _U64),
        ("kind", _I64),
    ]


class SurveyLayout(ctypes.Structure):
    """``struct sh_survey``."""

    _fields_ = [
        ("nulls", _I64),
        ("nans", _I64),
        ("low", _I64),
        ("high", _I64),
        ("crc", _I64),
    ]


class TableLayout(ctypes.Structure):
    """``struct sh_table``."""

    _fields_ = [
        ("ranks", _PTR),
        ("entries", _I64),
    ]


class RankedLayout(ctypes.Structure):
    """``struct sh_ranked``."""

    _fields_ = [
        ("tables", _PTR),
        ("counts", _PTR),
        ("kinds", _I64),
    ]


class SlotLayout(ctypes.Structure):
    """``struct sh_slot``."""

    _fields_ = [
        ("key", _U64),
        ("length", _I32),
        ("number", _I32),
    ]


class ColumnLayout(ctypes.Structure):
    """``struct sh_column``."""

    _fields_ = [
        ("kind", _I64),
        ("low", _I64),
        ("high", _I64),
        ("digits", _I64),
        ("last_lead", _I64),
        ("values", _PTR),
        ("valid", _PTR),
        ("local", _PTR),
        ("ends", _PTR),
        ("bytes", _PTR),
        ("room", _I64),
        ("ids", _PTR),
        ("text_ends", _PTR),
        ("text_bytes", _PTR),
        ("slots", _PTR),
        ("slot_mask", _I64),
        ("most", _I64),
        ("texts", _I64),
        ("seed", _U64),
        ("some_null", _I64),
        ("absent", _I64),
        ("also", _I64),
        ("line", _I64),
    ]


class NameLayout(ctypes.Structure):
    """``struct sh_name``."""

    _fields_ = [
        ("start", _I64),
        ("length", _I64),
        ("object", _I64),
        ("column", _I64),
        ("inner", _I64),
        ("met", _I64),
        ("after", _I64),
        ("line", _I64),
    ]


class NamesLayout(ctypes.Structure):
    """``struct sh_names``."""

    _fields_ = [
        ("list", _PTR),
        ("count", _I64),
        ("room", _I64),
        ("text", _PTR),
        ("used", _I64),
        ("text_room", _I64),
        ("slots", _PTR),
        ("slot_mask", _I64),
        ("seed", _U64),
        ("known", _I64),
    ]


class ScanLayout(ctypes.Structure):
    """``struct sh_scan``."""

    _fields_ = [
        ("names", _PTR),
        ("columns", _PTR),
        ("column_count", _I64),
        ("first", _PTR),
        ("powers", _PTR),
        ("line", _I64),
        ("strict", _I64),
        ("date_text", _I64),
        ("date_rest", _I64),
        ("date_day", _I64),
    ]


class CsvLayout(ctypes.Structure):
    """``struct sh_csv``."""

    _fields_ = [
        ("scan", _PTR),
        ("fields", _PTR),
        ("field_count", _I64),
        ("delimiter", _I64),
        ("quote", _I64),
        ("trailing", _I64),
        ("framed", _I64),
        ("comment", _BYTES),
        ("comment_length", _I64),
        ("nulls", _BYTES),
        ("null_ends", _PTR),
        ("null_count", _I64),
        ("null_lengths", _I64),
        ("quoted_null", _I64),
        ("longest", _I64),
        ("alone", _I64),
        ("last", _I64),
        ("rows", _PTR),
        ("stops", _PTR),
        ("odd", _PTR),
        ("odd_stops", _PTR),
        ("odd_count", _I64),
        ("open", _I64),
    ]


class WireFieldLayout(ctypes.Structure):
    """``struct sh_wire_field``."""

    _fields_ = [
        ("kind", _I64),
        ("column", _I64),
        ("nulls", _I64),
        ("size", _I64),
        ("number", _I64),
        ("met", _I64),
        ("record", _I64),
    ]


class RecordsLayout(ctypes.Structure):
    """``struct sh_records``."""

    _fields_ = [
        ("scan", _PTR),
        ("fields", _PTR),
        ("field_count", _I64),
        ("prefix", _BYTES),
        ("prefix_length", _I64),
    ]


class MapListsLayout(ctypes.Structure):
    """``struct sh_map_lists``."""

    _fields_ = [
        ("room", _I64),
        ("key_ends", _PTR),
        ("keys", _PTR),
        ("value_ends", _PTR),
        ("values", _PTR),
        ("numbers", _PTR),
    ]


SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "sh_abi": (_I64, []),
    "sh_sources": (_BYTES, []),
    "sh_crc32": (None, [_PTR, _PTR, _I64, _PTR]),
    "sh_limit": (_I64, [_I64]),
    "sh_encode_dates": (_I64, [_PTR, _PTR, _I64, _I64, _I64, _I64, _PTR]),
    "sh_decode_dates": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _PTR]),
    "sh_encode_times": (_I64, [_PTR, _PTR, _I64, _I64, _I64, _I64, _PTR]),
    "sh_decode_times": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _PTR]),
    "sh_encode_decimals": (_I64, [_PTR, _PTR, _I64, _I64, _I64, _I64, _PTR]),
    "sh_decode_decimals": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _PTR]),
    "sh_encode_octets": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _I64, _I64, _I64, _PTR]),
    "sh_decode_octets": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _PTR, _PTR]),
    "sh_encode_arrays": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _PTR, _I64, _I64, _I64, _U64, _BYTES, _PTR, _PTR, _I64]),
    "sh_array_lengths": (_I64, [_PTR, _I64, _PTR, _I64, _I64, _BYTES, _PTR, _PTR]),
    "sh_decode_arrays": (_I64, [_PTR, _I64, _PTR, _I64, _U64, _PTR, _PTR]),
    "sh_encode_instants": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _PTR, _I64, _I64, _BYTES, _PTR, _PTR, _I64]),
    "sh_instant_lengths": (_I64, [_PTR, _I64, _PTR, _I64, _BYTES, _PTR, _PTR]),
    "sh_decode_instants": (_I64, [_PTR, _PTR, _I64, _PTR, _BYTES, _PTR, _PTR]),
    "sh_encode_texts": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _PTR, _I64, _I64, _PTR, _I64, _BYTES, _PTR, _PTR, _I64]),
    "sh_text_lengths": (_I64, [_PTR, _I64, _PTR, _I64, _BYTES, _PTR, _PTR]),
    "sh_decode_texts": (_I64, [_PTR, _PTR, _I64, _PTR, _PTR, _PTR, _PTR, _PTR, _I64, _PTR]),
    "sh_encode_string_maps": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _PTR, _I64, _PTR, _PTR, _I64]),
    "sh_string_map_lengths": (_I64, [_PTR, _I64, _PTR, _I64, _I64, _PTR, _PTR]),
    "sh_decode_string_maps": (_I64, [_PTR, _PTR, _I64, _PTR, _I64, _U64, _PTR]),
    "sh_encode_free_decimals": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _I64, _I64, _PTR, _PTR, _I64]),
    "sh_decode_free_decimals": (_I64, [_PTR, _I64, _PTR, _I64, _I64, _PTR, _PTR, _PTR, _I64]),
    "sh_row_sets": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _I64, _PTR]),
    "sh_read_files": (_I64, [_PTR, _I64, _I64, _PTR, _I64, _PTR, _PTR, _PTR, _I64, _PTR]),
    "sh_compare_directories": (_I64, [_BYTES, _PTR, _PTR, _I64, _PTR, _I64, _PTR]),
    "sh_read_whole_files": (_I64, [_BYTES, _BYTES, _I64, _I64, _PTR, _I64, _PTR, _I64, _PTR]),
    "sh_list_directories": (_I64, [_BYTES, _BYTES, _I64, _I64, _PTR, _I64, _PTR]),
    "sh_kafka_batches": (_I64, [_PTR, _I64, _PTR, _I64, _PTR]),
    "sh_kafka_check": (_I64, [_PTR, _PTR, _I64]),
    "sh_kafka_records": (_I64, [_PTR, _PTR, _I64, _I64, _PTR, _I64]),
    "sh_kafka_copy": (_I64, [_PTR, _PTR, _PTR, _I64, _PTR, _I64, _I64, _PTR]),
    "sh_kafka_headers": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _I64, _PTR, _PTR]),
    "sh_digest_fixed": (_I64, [_U64, _I64, _PTR, _I64, _U64, _PTR, _PTR]),
    "sh_digest_coded": (_I64, [_U64, _PTR, _I64, _I64, _PTR, _PTR, _PTR]),
    "sh_digest_texts": (_I64, [_U64, _PTR, _I64, _PTR, _I64, _I64, _PTR, _I64, _PTR, _PTR, _PTR]),
    "sh_digest_values": (_I64, [_U64, _PTR, _I64, _PTR, _I64, _PTR, _PTR]),
    "sh_add_symbols": (_I64, [_PTR, _I64, _PTR, _I64, _PTR]),
    "sh_sort_rows": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _PTR, _PTR]),
    "sh_union_texts": (_I64, [_PTR, _I64, _PTR, _PTR, _PTR, _I64, _PTR, _PTR, _PTR, _I64]),
    "sh_texts_ordered": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _I64]),
    "sh_take_texts": (_I64, [_PTR, _I64, _I64, _I64, _PTR, _I64, _PTR, _I64, _PTR, _PTR, _I64]),
    "sh_take_parts": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _I64, _I64, _PTR, _PTR, _I64]),
    "sh_gather": (_I64, [_PTR, _I64, _I64, _PTR, _I64, _PTR]),
    "sh_gather_ids": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _I64, _PTR]),
    "sh_count_ids": (_I64, [_PTR, _I64, _PTR, _I64]),
    "sh_number_pieces": (_I64, [_PTR, _I64, _PTR]),
    "sh_part": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _I64, _PTR]),
    "sh_plan_moves": (_I64, [_PTR, _I64, _PTR, _I64, _I64, _PTR, _I64, _PTR, _PTR]),
    "sh_move": (_I64, [_PTR, _I64, _I64, _PTR, _PTR, _I64, _PTR, _I64]),
    "sh_survey_fixed": (_I64, [_PTR, _PTR, _I64, _PTR, _PTR, _PTR]),
    "sh_place_files": (_I64, [_PTR, _I64, _PTR, _I64, _PTR, _PTR, _PTR, _I64, _PTR, _I64, _PTR, _PTR]),
    "sh_line_ends": (_I64, [_PTR, _I64, _PTR, _I64]),
    "sh_declare": (_I64, [_PTR, _PTR, _I64, _I64, _I64, _I64]),
    "sh_json_scan": (_I64, [_PTR, _PTR, _PTR, _I64, _PTR]),
    "sh_number_lists": (_I64, [_PTR, _PTR, _PTR, _PTR, _I64, _I64, _PTR, _PTR]),
    "sh_text_lists": (_I64, [_PTR, _PTR, _PTR, _I64, _I64, _PTR, _PTR, _PTR, _PTR, _PTR]),
    "sh_map_lists": (_I64, [_PTR, _PTR, _PTR, _PTR, _I64, _PTR, _PTR, _PTR]),
    "sh_byte_values": (None, [_PTR, _PTR, _PTR, _I64, _I64, _PTR, _PTR, _PTR]),
    "sh_csv_scan": (_I64, [_PTR, _PTR, _PTR, _I64, _I64]),
    "sh_avro_scan": (_I64, [_PTR, _PTR, _PTR, _I64, _PTR]),
    "sh_protobuf_scan": (_I64, [_PTR, _PTR, _PTR, _I64, _PTR]),
    "sh_count_nulls": (_I64, [_PTR, _I64, _I64, _U64]),
    "sh_valid_bits": (_I64, [_PTR, _I64, _I64, _U64, _PTR]),
    "sh_check_ids": (_I64, [_PTR, _I64, _I64]),
    "sh_check_texts": (_I64, [_PTR, _I64, _I64, _PTR, _I64, _I64, _PTR, _PTR]),
    "sh_verify_fixed": (_I64, [_I64, _I64, _PTR, _I64, _PTR, _PTR, _PTR]),
    "sh_verify_ids": (_I64, [_PTR, _I64, _I64, _PTR]),
    "sh_verify_texts": (_I64, [_PTR, _I64, _I64, _PTR, _I64, _I64, _PTR, _I64, _PTR, _I64, _PTR]),
}
