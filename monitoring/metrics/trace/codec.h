/// The bytes of a trace file. Pure.
///
/// ```
/// file    = "KSGTRACE", u32 version (3), record of the header, record of a row, record of a row, ...
/// record  = u32 bytes of the payload, u32 CRC32C of the payload, payload
/// header  = i64 period in ns, string host, string workload,
///           u32 count, count * {string name, string build, u64 process},           the sources
///           u32 count, count * {string name, u8 kind, u32 source, f64 limit},      the metrics; kind 0: counter, 1: gauge
///           u32 count, count * {string name, u32 source}                           the regions
/// row     = i64 t_ns, f64 for each metric (NaN: missing),
///           u32 count, count * {u32 region, f32 open, f32 ended}, u32 count, count * {u32 source, string build, u64 process}
/// string  = u16 bytes, bytes
/// ```
/// All numbers are little endian. Versions 1 and 2 are read as well: they do not say what ended, and 1 has no
/// processes.
#pragma once

#include <string>
#include <string_view>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

/// A process that was killed leaves a record that ends before its length says so: this says what a reader makes of it.
enum class Torn : uint8_t { kIsAnError, kEndsTheTrace };

/// The beginning of a file. REQUIRES: check(header) is ok.
std::string encode(const Header& header);
/// What is appended for a row. REQUIRES: check(header, row) is ok.
std::string encode(const Row& row);

/// kCorrupt: no trace, cut off, or damaged; the message says which row, at which byte.
Result<Trace> decode(std::string_view bytes, Torn torn = Torn::kIsAnError);

}  // namespace kintsugi::metric_trace
