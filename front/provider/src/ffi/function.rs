//! Numbers of dispatch functions (core_dispatch.h, OSSL_FUNC_*).

use std::ffi::c_int;

pub const CORE_GET_PARAMS: c_int = 2;
pub const CORE_NEW_ERROR: c_int = 5;
pub const CORE_SET_ERROR_DEBUG: c_int = 6;
pub const CORE_VSET_ERROR: c_int = 7;
pub const CORE_OBJ_ADD_SIGID: c_int = 11;
pub const CORE_OBJ_CREATE: c_int = 12;
pub const CLEANUP_USER_ENTROPY: c_int = 96;
pub const GET_USER_ENTROPY: c_int = 98;

pub const PROVIDER_TEARDOWN: c_int = 1024;
pub const PROVIDER_GETTABLE_PARAMS: c_int = 1025;
pub const PROVIDER_GET_PARAMS: c_int = 1026;
pub const PROVIDER_QUERY_OPERATION: c_int = 1027;
pub const PROVIDER_GET_CAPABILITIES: c_int = 1030;
pub const PROVIDER_SELF_TEST: c_int = 1031;

pub const BIO_READ_EX: c_int = 42;
pub const BIO_WRITE_EX: c_int = 43;

pub const KEYMGMT_NEW: c_int = 1;
pub const KEYMGMT_GEN_INIT: c_int = 2;
pub const KEYMGMT_GEN_SET_PARAMS: c_int = 4;
pub const KEYMGMT_GEN_SETTABLE_PARAMS: c_int = 5;
pub const KEYMGMT_GEN: c_int = 6;
pub const KEYMGMT_GEN_CLEANUP: c_int = 7;
pub const KEYMGMT_LOAD: c_int = 8;
pub const KEYMGMT_FREE: c_int = 10;
pub const KEYMGMT_GET_PARAMS: c_int = 11;
pub const KEYMGMT_GETTABLE_PARAMS: c_int = 12;
pub const KEYMGMT_SET_PARAMS: c_int = 13;
pub const KEYMGMT_SETTABLE_PARAMS: c_int = 14;
pub const KEYMGMT_HAS: c_int = 21;
pub const KEYMGMT_VALIDATE: c_int = 22;
pub const KEYMGMT_MATCH: c_int = 23;
pub const KEYMGMT_IMPORT: c_int = 40;
pub const KEYMGMT_IMPORT_TYPES: c_int = 41;
pub const KEYMGMT_EXPORT: c_int = 42;
pub const KEYMGMT_EXPORT_TYPES: c_int = 43;
pub const KEYMGMT_DUP: c_int = 44;

pub const KEM_NEWCTX: c_int = 1;
pub const KEM_ENCAPSULATE_INIT: c_int = 2;
pub const KEM_ENCAPSULATE: c_int = 3;
pub const KEM_DECAPSULATE_INIT: c_int = 4;
pub const KEM_DECAPSULATE: c_int = 5;
pub const KEM_FREECTX: c_int = 6;
pub const KEM_DUPCTX: c_int = 7;
pub const KEM_GET_CTX_PARAMS: c_int = 8;
pub const KEM_GETTABLE_CTX_PARAMS: c_int = 9;
pub const KEM_SET_CTX_PARAMS: c_int = 10;
pub const KEM_SETTABLE_CTX_PARAMS: c_int = 11;

pub const KDF_NEWCTX: c_int = 1;
pub const KDF_DUPCTX: c_int = 2;
pub const KDF_FREECTX: c_int = 3;
pub const KDF_RESET: c_int = 4;
pub const KDF_DERIVE: c_int = 5;
pub const KDF_GETTABLE_CTX_PARAMS: c_int = 7;
pub const KDF_SETTABLE_CTX_PARAMS: c_int = 8;
pub const KDF_GET_CTX_PARAMS: c_int = 10;
pub const KDF_SET_CTX_PARAMS: c_int = 11;

pub const KEYEXCH_NEWCTX: c_int = 1;
pub const KEYEXCH_INIT: c_int = 2;
pub const KEYEXCH_DERIVE: c_int = 3;
pub const KEYEXCH_SET_PEER: c_int = 4;
pub const KEYEXCH_FREECTX: c_int = 5;
pub const KEYEXCH_DUPCTX: c_int = 6;
pub const KEYEXCH_GET_CTX_PARAMS: c_int = 9;
pub const KEYEXCH_GETTABLE_CTX_PARAMS: c_int = 10;

pub const ENCODER_NEWCTX: c_int = 1;
pub const ENCODER_FREECTX: c_int = 2;
pub const ENCODER_SET_CTX_PARAMS: c_int = 5;
pub const ENCODER_SETTABLE_CTX_PARAMS: c_int = 6;
pub const ENCODER_DOES_SELECTION: c_int = 10;
pub const ENCODER_ENCODE: c_int = 11;

pub const DECODER_NEWCTX: c_int = 1;
pub const DECODER_FREECTX: c_int = 2;
pub const DECODER_DOES_SELECTION: c_int = 10;
pub const DECODER_DECODE: c_int = 11;
pub const DECODER_EXPORT_OBJECT: c_int = 20;

pub const STORE_OPEN: c_int = 1;
pub const STORE_SETTABLE_CTX_PARAMS: c_int = 3;
pub const STORE_SET_CTX_PARAMS: c_int = 4;
pub const STORE_LOAD: c_int = 5;
pub const STORE_EOF: c_int = 6;
pub const STORE_CLOSE: c_int = 7;
pub const STORE_EXPORT_OBJECT: c_int = 8;

pub const SIGNATURE_NEWCTX: c_int = 1;
pub const SIGNATURE_SIGN: c_int = 3;
pub const SIGNATURE_VERIFY: c_int = 5;
pub const SIGNATURE_DIGEST_SIGN_INIT: c_int = 8;
pub const SIGNATURE_DIGEST_SIGN: c_int = 11;
pub const SIGNATURE_DIGEST_VERIFY_INIT: c_int = 12;
pub const SIGNATURE_DIGEST_VERIFY: c_int = 15;
pub const SIGNATURE_FREECTX: c_int = 16;
pub const SIGNATURE_DUPCTX: c_int = 17;
pub const SIGNATURE_GET_CTX_PARAMS: c_int = 18;
pub const SIGNATURE_GETTABLE_CTX_PARAMS: c_int = 19;
pub const SIGNATURE_SET_CTX_PARAMS: c_int = 20;
pub const SIGNATURE_SETTABLE_CTX_PARAMS: c_int = 21;
pub const SIGNATURE_SIGN_MESSAGE_INIT: c_int = 27;
pub const SIGNATURE_SIGN_MESSAGE_UPDATE: c_int = 28;
pub const SIGNATURE_SIGN_MESSAGE_FINAL: c_int = 29;
pub const SIGNATURE_VERIFY_MESSAGE_INIT: c_int = 30;
pub const SIGNATURE_VERIFY_MESSAGE_UPDATE: c_int = 31;
pub const SIGNATURE_VERIFY_MESSAGE_FINAL: c_int = 32;
