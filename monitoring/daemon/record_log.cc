#include "monitoring/daemon/record_log.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "common/base/crc32c.h"
#include "common/log/log.h"

namespace kintsugi::monitoring {
namespace {

constexpr uint32_t kMagic = 0x314c524b;      // "KRL1"
constexpr std::string_view kFamily = "KRL";  ///< files of all versions begin with it
constexpr size_t kAlignment = runtime::kDiskAlignment;

struct Header {
  uint32_t magic = kMagic;
  uint32_t crc = 0;  ///< CRC32C of the length and the record
  uint64_t length = 0;
};
static_assert(sizeof(Header) == 16);

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint32_t crc_of(uint64_t length, std::string_view record) {
  const uint32_t of_length = crc32c(std::as_bytes(std::span(&length, 1)));
  return crc32c_combine(of_length, crc32c(std::as_bytes(std::span(record.data(), record.size()))),
                        record.size());
}

/// Memory for reads and writes that bypass the page cache.
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t bytes)
      : bytes_(aligned(bytes)), data_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_))) {
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, bytes_);
  }
  ~AlignedMemory() { std::free(data_); }
  AlignedMemory(const AlignedMemory&) = delete;

  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  size_t bytes_;
  std::byte* data_;
};

}  // namespace

RecordLog::RecordLog(const runtime::Runtime& runtime, RecordLogOptions options)
    : runtime_(runtime), options_(std::move(options)) {}

RecordLog::~RecordLog() = default;

uint64_t RecordLog::bytes() const {
  uint64_t sum = 0;
  for (const Segment& segment : segments_)
    sum += segment.bytes;
  return sum;
}

std::string RecordLog::path(uint64_t number) const {
  return fmt::format("{}/{:016}.log", options_.directory, number);
}

std::vector<std::string_view> RecordLog::parse(std::string_view segment) {
  std::vector<std::string_view> records;
  size_t at = 0;
  while (segment.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, segment.data() + at, sizeof(header));
    const uint64_t left = segment.size() - at - sizeof(Header);
    if (header.magic != kMagic || header.length > std::min<uint64_t>(left, kMostRecord)) break;
    const std::string_view record = segment.substr(at + sizeof(Header), header.length);
    if (header.crc != crc_of(header.length, record)) break;
    records.push_back(record);
    at = std::min<uint64_t>(at + aligned(sizeof(Header) + header.length), segment.size());
  }
  return records;
}

asio::awaitable<Status> RecordLog::open(std::function<void(std::string_view)> read) {
  KINTSUGI_CO_TRY(co_await runtime_.disk.make_directory(options_.directory));
  // The directory and those above it may be new, too.
  for (std::string above = options_.directory; above.size() > 1;) {
    above.resize(std::max<size_t>(above.rfind('/'), 1));
    const Status synced = co_await runtime_.disk.sync_directory(above);
    if (!synced.ok()) break;  // this process may have no access to the directories above
  }
  KINTSUGI_CO_ASSIGN(lock_, co_await runtime_.disk.lock(options_.directory + "/lock"));
  KINTSUGI_CO_ASSIGN(const std::vector<std::string> names, co_await runtime_.disk.list(options_.directory));
  for (const std::string& name : names) {  // names sort like their numbers
    if (name.size() != 20 || !name.ends_with(".log") ||
        name.find_first_not_of("0123456789") != name.size() - 4)
      continue;
    Segment segment{.number = std::strtoull(name.c_str(), nullptr, 10)};
    const auto attributes = co_await runtime_.disk.attributes(path(segment.number));
    if (!attributes) co_return attributes.error();
    segment.bytes = attributes->bytes;
    segments_.push_back(segment);
  }
  if (!read) co_return Status{};
  for (const Segment& segment : segments_) {
    // What cannot be read is lost; the rest is not.
    const Status status = co_await read_segment(segment, read);
    if (!status.ok()) log::warning("{}: {}", path(segment.number), status.to_string());
  }
  co_return Status{};
}

asio::awaitable<Status> RecordLog::read_segment(const Segment& segment,
                                                const std::function<void(std::string_view)>& read) {
  KINTSUGI_CO_ASSIGN(const auto file,
                     co_await runtime_.disk.open(path(segment.number), runtime::OpenMode::kRead));
  const AlignedMemory memory(std::min<uint64_t>(segment.bytes, options_.segment_bytes + kMostRecord));
  KINTSUGI_CO_ASSIGN(const size_t got, co_await file->read(0, memory.span()));
  const std::string_view bytes(reinterpret_cast<const char*>(memory.span().data()), got);
  const std::vector<std::string_view> records = parse(bytes);
  if (records.empty() && bytes.starts_with(kFamily) && bytes.size() >= sizeof(Header) &&
      std::memcmp(bytes.data(), &kMagic, sizeof kMagic) != 0)
    co_return Status{Code::kNotSupported,
                     "another version wrote it: what it holds is not shown, and it is left alone"};
  for (std::string_view record : records)
    read(record);
  co_return Status{};
}

asio::awaitable<void> RecordLog::make_room(uint64_t more) {
  while (segments_.size() > 1 &&
         (bytes() + more > options_.most_bytes || segments_.size() >= kMostSegments)) {
    const Status removed = co_await runtime_.disk.remove(path(segments_.front().number));
    if (!removed.ok()) log::warning("{}", removed.to_string());
    segments_.erase(segments_.begin());
  }
}

asio::awaitable<Status> RecordLog::begin_segment() {
  // Never behind a record that may be torn: that would hide what comes after it.
  const uint64_t number = segments_.empty() ? 1 : segments_.back().number + 1;
  KINTSUGI_CO_ASSIGN(file_, co_await runtime_.disk.open(path(number), runtime::OpenMode::kCreate));
  segments_.push_back({.number = number});
  co_return co_await runtime_.disk.sync_directory(options_.directory);
}

asio::awaitable<Status> RecordLog::append(std::string_view record) {
  if (record.size() > kMostRecord) co_return Status{Code::kInvalidArgument, "the record is too long"};
  const AlignedMemory memory(sizeof(Header) + record.size());
  const Header header{.crc = crc_of(record.size(), record), .length = record.size()};
  std::memcpy(memory.span().data(), &header, sizeof(header));
  std::memcpy(memory.span().data() + sizeof(header), record.data(), record.size());

  if (file_ && segments_.back().bytes >= options_.segment_bytes) file_.reset();
  co_await make_room(memory.span().size());
  Status status;
  if (!file_) status = co_await begin_segment();
  if (status.ok()) status = co_await file_->write(segments_.back().bytes, memory.span());
  if (status.ok() && options_.durable) status = co_await file_->sync();
  if (status.ok()) {
    segments_.back().bytes += memory.span().size();
  } else {
    file_.reset();
  }
  co_return status;
}

}  // namespace kintsugi::monitoring
