//! The published figures: wolfSSL's `tls_bench` of 2022, TLS13-AES256-GCM-SHA384, on two cores of
//! an Intel Core i7-1165G7.

use super::OldSide;

/// A published row.
pub(super) struct Old {
    pub(super) group: &'static str,
    pub(super) server: OldSide,
    pub(super) client: OldSide,
}

/// Connections, connect average in milliseconds, megabytes a second received and sent.
const fn side(connections: u32, connect_avg_ms: f64, rx_mb_s: f64, tx_mb_s: f64) -> OldSide {
    OldSide { connections, connect_avg_ms, rx_mb_s, tx_mb_s }
}

const fn row(group: &'static str, server: OldSide, client: OldSide) -> Old {
    Old { group, server, client }
}

/// The published rows in their order; the three rows with P-521 were measured with slower
/// arithmetic.
pub(super) const OLD: [Old; 16] = [
    row("ECC_SECP256R1", side(801, 0.689, 419.2, 1236.204), side(801, 0.687, 378.542, 1292.002)),
    row("ECC_SECP384R1", side(629, 0.809, 378.892, 1141.27), side(629, 0.805, 342.942, 1192.073)),
    row("FFDHE_2048", side(481, 1.206, 377.971, 1129.896), side(481, 1.210, 342.245, 1186.597)),
    row("KYBER_LEVEL1", side(863, 0.672, 416.229, 1230.22), side(863, 0.665, 377.956, 1277.233)),
    row("KYBER_LEVEL3", side(818, 0.738, 422.965, 1263.96), side(818, 0.729, 387.781, 1258.593)),
    row("KYBER_LEVEL5", side(788, 0.747, 394.073, 1164.683), side(788, 0.737, 356.355, 1201.798)),
    row("KYBER_90S_LEVEL1", side(866, 0.682, 433.36, 1253.12), side(866, 0.676, 394.246, 1292.214)),
    row(
        "KYBER_90S_LEVEL3",
        side(797, 0.733, 391.979, 1153.925),
        side(797, 0.729, 356.499, 1190.096),
    ),
    row(
        "KYBER_90S_LEVEL5",
        side(786, 0.743, 384.316, 1151.26),
        side(786, 0.737, 347.964, 1189.958),
    ),
    row(
        "P256_KYBER_LEVEL1",
        side(696, 0.922, 395.266, 1150.114),
        side(696, 0.835, 359.89, 1200.483),
    ),
    row(
        "P384_KYBER_LEVEL3",
        side(510, 1.458, 416.76, 1184.982),
        side(510, 1.198, 376.188, 1256.605),
    ),
    row(
        "P256_KYBER_90S_LEVEL1",
        side(730, 0.892, 430.17, 1251.386),
        side(730, 0.807, 390.919, 1283.561),
    ),
    row(
        "P384_KYBER_90S_LEVEL3",
        side(520, 1.392, 384.376, 1126.236),
        side(520, 1.143, 343.112, 1227.747),
    ),
    row("ECC_SECP521R1", side(88, 5.082, 368.325, 1154.06), side(88, 5.033, 336.028, 1181.257)),
    row(
        "P521_KYBER_LEVEL5",
        side(42, 22.816, 625.096, 165.633),
        side(42, 16.177, 516.689, 1390.684),
    ),
    row(
        "P521_KYBER_90S_LEVEL5",
        side(51, 19.139, 326.68, 907.481),
        side(51, 13.198, 265.078, 1240.273),
    ),
];
