#include "monitoring/metrics/trace/files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "monitoring/metrics/trace/codec.h"
#include "monitoring/metrics/trace/csv.h"

namespace kintsugi::metric_trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".trace";

/// The header of a file and a row lie within so many bytes of its beginning.
constexpr uint64_t kBeginning = 4 << 20;

/// The first `most` bytes of a file.
Result<std::string> contents(const std::string& path, uint64_t most = kMostReadBytes + 1) {
  std::error_code error;
  const uint64_t size = std::min(most, fs::file_size(path, error));
  if (error) return Status(Code::kIoError, fmt::format("{}: {}", path, error.message()));
  if (size > kMostReadBytes)
    return Status(Code::kLimitExceeded,
                  fmt::format("{}: {} bytes, at most {} are read", path, size, kMostReadBytes));
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  if (file.bad() || !file.is_open()) return status_from_errno(errno, path);
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

Result<Trace> read_file(const std::string& path, Torn torn) {
  KINTSUGI_ASSIGN(const std::string bytes, contents(path));
  auto trace = path.ends_with(".csv") ? from_csv(bytes) : decode(bytes, torn);
  if (!trace) return trace.error().with_context(path);
  return trace;
}

/// The header of a file, and its first rows.
Result<Trace> read_beginning(const std::string& path) {
  KINTSUGI_ASSIGN(const std::string bytes, contents(path, kBeginning));
  return decode(bytes, Torn::kEndsTheTrace);
}

/// The files of a directory, the oldest first.
Result<std::vector<fs::path>> files_in(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (entry->path().extension() == kExtension) paths.push_back(entry->path());
  if (error) return Status(Code::kIoError, fmt::format("{}: {}", directory, error.message()));
  std::ranges::sort(paths);
  return paths;
}

/// When somebody wrote the file last; 0: it is gone.
int64_t written_ns(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0
               : std::chrono::nanoseconds(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

Status nothing_in(const std::string& directory) {
  return Status(Code::kNotFound, fmt::format("{}: no files whose names end in {}", directory, kExtension));
}

/// Nanoseconds; `otherwise` if there is no text.
Result<int64_t> parse_time(const std::string& text, int64_t otherwise) {
  if (text.empty()) return otherwise;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || std::abs(seconds) > 9e9)
    return Status(Code::kInvalidArgument, fmt::format("'{}' is no time: seconds since 1970 are one", text));
  return static_cast<int64_t>(seconds * 1e9);
}

Result<Trace> read_directory(const std::string& directory) {
  KINTSUGI_ASSIGN(const std::vector<fs::path> paths, files_in(directory));
  std::vector<Trace> parts;
  uint64_t bytes = 0;
  for (const fs::path& path : paths) {
    std::error_code error;
    bytes += fs::file_size(path, error);
    if (bytes > kMostReadBytes)
      return Status(Code::kLimitExceeded, fmt::format("{}: more than {} bytes", directory, kMostReadBytes));
    KINTSUGI_ASSIGN(Trace part, read_file(path, Torn::kEndsTheTrace));
    // Rows of another period cannot stand in one table: only the last ones count.
    if (!parts.empty() && part.header.period != parts.back().header.period) parts.clear();
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return nothing_in(directory);
  return joined(std::move(parts));
}

}  // namespace

Status for_each_part(const std::string& directory, int64_t since_ns,
                     const std::function<void(Trace part)>& use, const std::stop_token& stop) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return nothing_in(directory);
  KINTSUGI_ASSIGN(const std::vector<fs::path> paths, files_in(directory));
  if (paths.empty()) return nothing_in(directory);
  size_t first = paths.size() - 1;
  // A file ends where the next one begins.
  for (; first > 0 && !stop.stop_requested(); --first) {
    const auto beginning = read_beginning(paths[first]);
    if (beginning && !beginning->rows.empty() && beginning->rows.front().t_ns <= since_ns) break;
  }
  for (size_t i = first; i < paths.size(); ++i) {
    if (stop.stop_requested()) return {Code::kCancelled, "nobody waits for the trace any more"};
    if (auto part = read_file(paths[i], Torn::kEndsTheTrace)) use(std::move(*part));
  }
  return {};
}

Result<Header> latest_header(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return nothing_in(directory);
  KINTSUGI_ASSIGN(const std::vector<fs::path> paths, files_in(directory));
  for (auto path = paths.rbegin(); path != paths.rend(); ++path)
    if (auto beginning = read_beginning(*path)) return std::move(beginning->header);
  return nothing_in(directory);
}

Result<Header> known_header(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return nothing_in(directory);
  KINTSUGI_ASSIGN(const std::vector<fs::path> paths, files_in(directory));
  std::vector<Trace> parts;
  for (const fs::path& path : paths) {
    auto part = read_beginning(path);
    if (!part) continue;  // it was dropped meanwhile, or is damaged
    part->rows.clear();
    parts.push_back(std::move(*part));
  }
  if (parts.empty()) return nothing_in(directory);
  return joined(std::move(parts)).header;
}

Result<Trace> read_trace(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return Status(Code::kNotFound, fmt::format("{}: no such file or directory", path));
  return fs::is_directory(path, error) ? read_directory(path) : read_file(path, Torn::kIsAnError);
}

Result<Trace> read_part(const std::string& name) {
  const size_t at = name.rfind('@'), dots = name.find("..", at);
  if (at == std::string::npos || dots == std::string::npos) return read_trace(name);
  KINTSUGI_ASSIGN(const int64_t from,
                  parse_time(name.substr(at + 1, dots - at - 1), std::numeric_limits<int64_t>::min()));
  KINTSUGI_ASSIGN(const int64_t to, parse_time(name.substr(dots + 2), std::numeric_limits<int64_t>::max()));
  auto trace = read_trace(name.substr(0, at));
  if (trace) std::erase_if(trace->rows, [&](const Row& row) { return row.t_ns < from || row.t_ns >= to; });
  return trace;
}

Status write_trace(const std::string& path, const Trace& trace) {
  KINTSUGI_TRY(check(trace.header));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (path.ends_with(".csv")) {
    file << to_csv(trace);
  } else {
    file << encode(trace.header);
    for (const Row& row : trace.rows) {
      KINTSUGI_TRY(check(trace.header, row).with_context(path));
      file << encode(row);
    }
  }
  file.close();
  return file ? Status() : status_from_errno(errno, path);
}

Result<std::unique_ptr<TraceFiles>> TraceFiles::open(TraceFilesOptions options, Header header) {
  KINTSUGI_TRY(check(header));
  std::error_code error;
  fs::create_directories(options.directory, error);
  if (error) return Status(Code::kIoError, fmt::format("{}: {}", options.directory, error.message()));
  std::unique_ptr<TraceFiles> keeper(new TraceFiles(std::move(options), std::move(header)));
  KINTSUGI_TRY(keeper->find_files());
  return keeper;
}

Status TraceFiles::append(const Row& row) {
  KINTSUGI_TRY(check(header_, row));
  const bool full = !files_.empty() && (files_.back().bytes >= options_.most_bytes / kFiles ||
                                        row.t_ns - files_.back().began_ns >=
                                            options_.most_time.count() / static_cast<int64_t>(kFiles));
  if (full) file_.close();
  if (!file_.is_open()) KINTSUGI_TRY(begin_file(row.t_ns));
  KINTSUGI_TRY(write(encode(row)));
  for (const Restart& restart : row.restarts) {
    header_.sources[restart.source].build_id = restart.build_id;
    header_.sources[restart.source].process = restart.process;
  }
  return {};
}

Status TraceFiles::change(Header header) {
  KINTSUGI_TRY(check(header));
  header_ = std::move(header);
  file_.close();
  return {};
}

uint64_t TraceFiles::bytes() const {
  uint64_t sum = 0;
  for (const File& file : files_)
    sum += file.bytes;
  return sum;
}

std::string TraceFiles::path(uint64_t number) const {
  return fmt::format("{}/{:016}{}", options_.directory, number, kExtension);
}

Status TraceFiles::find_files() {
  KINTSUGI_ASSIGN(const std::vector<fs::path> paths, files_in(options_.directory));
  for (const fs::path& found : paths) {
    std::error_code error;
    const uint64_t number = std::strtoull(found.stem().c_str(), nullptr, 10);
    if (found != path(number)) continue;
    File file{.number = number, .bytes = fs::file_size(found, error)};
    if (const auto beginning = read_beginning(found); beginning && !beginning->rows.empty())
      file.began_ns = beginning->rows.front().t_ns;
    else  // of a newer monitor, say, which will be back: it is no older than others
      file.began_ns = written_ns(found);
    files_.push_back(file);
    next_number_ = number + 1;
  }
  return {};
}

void TraceFiles::drop_oldest() {
  std::error_code error;
  fs::remove(path(files_.front().number), error);
  files_.pop_front();
}

/// The new file will have its share, so the others may have what is left of the limits. Of those that are too old one or
/// two go for each new file: a clock that jumps ahead makes all of them old at once.
void TraceFiles::make_room(int64_t t_ns) {
  const uint64_t share = options_.most_bytes / kFiles;
  while (!files_.empty() && bytes() + share > options_.most_bytes)
    drop_oldest();
  for (int i = 0; i < 2 && !files_.empty() && t_ns - files_.front().began_ns > options_.most_time.count();
       ++i)
    drop_oldest();
}

Status TraceFiles::begin_file(int64_t t_ns) {
  make_room(t_ns);
  files_.push_back({.number = next_number_++, .began_ns = t_ns});
  errno = 0;
  file_.clear();
  file_.open(path(files_.back().number), std::ios::binary | std::ios::trunc);
  if (!file_.is_open()) {
    const Status status = status_from_errno(errno, path(files_.back().number));
    files_.pop_back();
    return status;
  }
  return write(encode(header_));
}

Status TraceFiles::write(const std::string& bytes) {
  errno = 0;
  file_ << bytes << std::flush;
  if (file_) {
    files_.back().bytes += bytes.size();
    return {};
  }
  const Status status = status_from_errno(errno != 0 ? errno : EIO, path(files_.back().number));
  file_.close();
  std::error_code error;
  // A part of a row is read as the end of the file; a file without a header would be damage.
  if (files_.back().bytes == 0) {
    fs::remove(path(files_.back().number), error);
    files_.pop_back();
  }
  return status;
}

}  // namespace kintsugi::metric_trace
