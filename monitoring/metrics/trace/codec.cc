#include "monitoring/metrics/trace/codec.h"

#include <bit>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "common/base/crc32c.h"

namespace kintsugi::metric_trace {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are in memory");

constexpr std::string_view kMagic = "KSGTRACE";
constexpr uint32_t kVersion = 3;
// Older versions.
constexpr uint32_t kWithoutProcesses = 1, kWithoutEnded = 2;
constexpr size_t kRecordHead = 8;

uint32_t crc_of(std::string_view payload) {
  return crc32c(std::as_bytes(std::span(payload.data(), payload.size())));
}

Status corrupt(std::string message) {
  return Status(Code::kCorrupt, std::move(message));
}

class Output {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    number(static_cast<uint16_t>(text.size()));
    bytes_ += text;
  }
  void count(size_t count) { number(static_cast<uint32_t>(count)); }
  /// The payload as a record.
  std::string record() const {
    Output head;
    head.count(bytes_.size());
    head.number(crc_of(bytes_));
    return head.bytes_ + bytes_;
  }

 private:
  std::string bytes_;
};

/// Reads a payload whose checksum was right. What ends too early is zero, and `ok` tells.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const size_t size = number<uint16_t>();
    if (rest_.size() < size) ok_ = false;
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(std::min(size, rest_.size()));
    return text;
  }
  /// How many items follow, none of which has less than `least_bytes`; 0 where they cannot all be there.
  size_t count(size_t least_bytes) {
    const size_t count = number<uint32_t>();
    if (count <= rest_.size() / least_bytes) return count;
    ok_ = false;
    return 0;
  }
  bool whole() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::optional<Header> header_of(std::string_view payload, uint32_t version) {
  Input in(payload);
  Header header;
  header.period = std::chrono::nanoseconds(in.number<int64_t>());
  header.host = in.text();
  header.workload = in.text();
  header.sources.resize(in.count(4));
  for (Source& source : header.sources) {
    source.name = in.text();
    source.build_id = in.text();
    if (version > kWithoutProcesses) source.process = in.number<uint64_t>();
  }
  header.metrics.resize(in.count(15));
  for (Metric& metric : header.metrics) {
    metric.name = in.text();
    metric.kind = in.number<uint8_t>() == 0 ? Kind::kCounter : Kind::kGauge;
    metric.source = in.number<uint32_t>();
    metric.limit = in.number<double>();
  }
  header.regions.resize(in.count(6));
  for (Region& region : header.regions) {
    region.name = in.text();
    region.source = in.number<uint32_t>();
  }
  if (!in.whole()) return std::nullopt;
  return header;
}

std::optional<Row> row_of(std::string_view payload, size_t metrics, uint32_t version) {
  Input in(payload);
  Row row;
  row.t_ns = in.number<int64_t>();
  row.values.resize(metrics);
  for (double& value : row.values)
    value = in.number<double>();
  row.activity.resize(in.count(version > kWithoutEnded ? 12 : 8));
  for (RegionActivity& activity : row.activity) {
    activity.region = in.number<uint32_t>();
    activity.open = in.number<float>();
    if (version > kWithoutEnded) activity.ended = in.number<float>();
  }
  row.restarts.resize(in.count(6));
  for (Restart& restart : row.restarts) {
    restart.source = in.number<uint32_t>();
    restart.build_id = in.text();
    if (version > kWithoutProcesses) restart.process = in.number<uint64_t>();
  }
  if (!in.whole()) return std::nullopt;
  return row;
}

/// The records of a file, one after the other.
class Records {
 public:
  explicit Records(std::string_view bytes) : bytes_(bytes), at_(kMagic.size() + sizeof kVersion) {}

  bool more() const { return at_ < bytes_.size(); }
  size_t at() const { return at_; }
  /// The next one ends before its length says so.
  bool torn() const {
    return bytes_.size() - at_ < kRecordHead || bytes_.size() - at_ - kRecordHead < word(at_);
  }
  /// Nothing: its checksum is wrong. REQUIRES: more() and not torn().
  std::optional<std::string_view> next() {
    const std::string_view payload = bytes_.substr(at_ + kRecordHead, word(at_));
    if (crc_of(payload) != word(at_ + 4)) return std::nullopt;
    at_ += kRecordHead + payload.size();
    return payload;
  }

 private:
  uint32_t word(size_t at) const {
    uint32_t value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  std::string_view bytes_;
  size_t at_;
};

Result<Header> read_header(Records& records, uint32_t version) {
  if (!records.more() || records.torn()) return corrupt("the trace is cut off in its header");
  const auto payload = records.next();
  if (!payload) return corrupt("the header of the trace does not match its checksum");
  const auto header = header_of(*payload, version);
  if (!header) return corrupt("the header of the trace has no valid form");
  if (const Status status = check(*header); !status.ok())
    return corrupt("the header of the trace is not valid: " + status.message());
  return *header;
}

}  // namespace

std::string encode(const Header& header) {
  Output out;
  out.number(static_cast<int64_t>(header.period.count()));
  out.text(header.host);
  out.text(header.workload);
  out.count(header.sources.size());
  for (const Source& source : header.sources) {
    out.text(source.name);
    out.text(source.build_id);
    out.number(source.process);
  }
  out.count(header.metrics.size());
  for (const Metric& metric : header.metrics) {
    out.text(metric.name);
    out.number(static_cast<uint8_t>(metric.kind == Kind::kCounter ? 0 : 1));
    out.number(metric.source);
    out.number(metric.limit);
  }
  out.count(header.regions.size());
  for (const Region& region : header.regions) {
    out.text(region.name);
    out.number(region.source);
  }
  std::string file(kMagic);
  file.append(reinterpret_cast<const char*>(&kVersion), sizeof kVersion);
  return file + out.record();
}

std::string encode(const Row& row) {
  Output out;
  out.number(row.t_ns);
  for (const double value : row.values)
    out.number(value);
  out.count(row.activity.size());
  for (const RegionActivity& activity : row.activity) {
    out.number(activity.region);
    out.number(activity.open);
    out.number(activity.ended);
  }
  out.count(row.restarts.size());
  for (const Restart& restart : row.restarts) {
    out.number(restart.source);
    out.text(restart.build_id);
    out.number(restart.process);
  }
  return out.record();
}

Result<Trace> decode(std::string_view bytes, Torn torn) {
  if (!bytes.starts_with(kMagic))
    return corrupt("this is no trace of metrics: it does not begin with KSGTRACE");
  uint32_t version = 0;
  if (bytes.size() >= kMagic.size() + sizeof version)
    std::memcpy(&version, bytes.data() + kMagic.size(), sizeof version);
  if (version < kWithoutProcesses || version > kVersion)
    return corrupt(fmt::format("version {} of trace files is not known, only {} to {}", version,
                               kWithoutProcesses, kVersion));
  Records records(bytes);
  KINTSUGI_ASSIGN(Header header, read_header(records, version));
  Trace trace{.header = std::move(header), .rows = {}};
  while (records.more()) {
    const size_t number = trace.rows.size() + 1, at = records.at();
    if (records.torn()) {
      if (torn == Torn::kEndsTheTrace) break;
      return corrupt(fmt::format("the trace is cut off in row {}, at byte {}", number, at));
    }
    const auto payload = records.next();
    if (!payload) return corrupt(fmt::format("row {}, at byte {}, does not match its checksum", number, at));
    auto row = row_of(*payload, trace.header.metrics.size(), version);
    if (!row || !check(trace.header, *row).ok())
      return corrupt(fmt::format("row {}, at byte {}, has no valid form", number, at));
    trace.rows.push_back(std::move(*row));
  }
  return trace;
}

}  // namespace kintsugi::metric_trace
