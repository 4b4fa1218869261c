#include "monitoring/sampling/process_sampler.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::sampling {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kBufferBytes = 64 << 10;
/// The kernel gives a longer file in parts of at least this size; a shorter part is the whole.
constexpr size_t kLeastPart = 2048;

enum File : size_t { kStat, kSchedstat, kStatus, kIo, kDev, kSnmp, kNetstat, kSockstat };
constexpr const char* kNames[] = {"stat",    "schedstat", "status",      "io",
                                  "net/dev", "net/snmp",  "net/netstat", "net/sockstat"};

// The columns of a row begin here for each file.
constexpr size_t kOfStat = 0, kOfSchedstat = 7, kOfStatus = 9, kOfIo = 15, kOfDescriptors = 22, kOfDev = 23,
                 kOfSnmp = 27, kOfNetstat = 29, kOfSockstat = 31;
constexpr Metric kMetrics[] = {
    {"utime", Kind::kCounter},
    {"stime", Kind::kCounter},
    {"minflt", Kind::kCounter},
    {"majflt", Kind::kCounter},
    {"num_threads", Kind::kGauge},
    {"vsize", Kind::kGauge},
    {"rss", Kind::kGauge},
    {"cpu_ns", Kind::kCounter},
    {"run_delay_ns", Kind::kCounter},
    {"RssAnon", Kind::kGauge},
    {"VmData", Kind::kGauge},
    {"VmStk", Kind::kGauge},
    {"VmSwap", Kind::kGauge},
    {"voluntary_ctxt_switches", Kind::kCounter},
    {"nonvoluntary_ctxt_switches", Kind::kCounter},
    {"rchar", Kind::kCounter},
    {"wchar", Kind::kCounter},
    {"syscr", Kind::kCounter},
    {"syscw", Kind::kCounter},
    {"read_bytes", Kind::kCounter},
    {"write_bytes", Kind::kCounter},
    {"cancelled_write_bytes", Kind::kCounter},
    {"fds", Kind::kGauge},
    {"rx_bytes", Kind::kCounter},
    {"rx_packets", Kind::kCounter},
    {"tx_bytes", Kind::kCounter},
    {"tx_packets", Kind::kCounter},
    {"TcpRetransSegs", Kind::kCounter},
    {"TcpCurrEstab", Kind::kGauge},
    {"TCPTimeouts", Kind::kCounter},
    {"ListenDrops", Kind::kCounter},
    {"sockets_inuse", Kind::kGauge},
    {"tcp_mem", Kind::kGauge},
};

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

/// Takes the next word of a line away from its front; empty at the line's end.
std::string_view next_word(std::string_view& line) {
  while (!line.empty() && is_space(line.front()))
    line.remove_prefix(1);
  const auto end = std::ranges::find_if(line, is_space);
  const std::string_view word = line.substr(0, static_cast<size_t>(end - line.begin()));
  line.remove_prefix(word.size());
  return word;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

double number(std::string_view word) {
  double value = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == word.data() + word.size() ? value : kUnknown;
}

/// The number behind "key:" at the beginning of a line.
double keyed(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    return number(next_word(line));
  }
  return kUnknown;
}

/// The value below `column` in a pair of lines that both begin with `table`.
double tabled(std::string_view text, std::string_view table, std::string_view column) {
  while (!text.empty()) {
    std::string_view names = next_line(text);
    if (!names.starts_with(table)) continue;
    std::string_view values = next_line(text);
    while (true) {
      const std::string_view name = next_word(names), value = next_word(values);
      if (name.empty() || value.empty()) return kUnknown;
      if (name == column) return number(value);
    }
  }
  return kUnknown;
}

/// The word behind `name` in the line that begins with `line_name`: "TCP: inuse 5 orphan 0 mem 3".
double named(std::string_view text, std::string_view line_name, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (!line.starts_with(line_name)) continue;
    for (std::string_view word = next_word(line); !word.empty(); word = next_word(line))
      if (word == name) return number(next_word(line));
  }
  return kUnknown;
}

/// Fills the columns of stat and returns when the process began; none when the text is not whole.
std::optional<uint64_t> take_stat(std::string_view text, std::span<double> row) {
  // The name of a program may hold blanks and brackets.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 1);
  std::string_view line = next_line(text);
  std::array<double, 25> field{};  // by the numbers that proc(5) gives them
  for (size_t i = 3; i < field.size(); ++i)
    field[i] = number(next_word(line));
  if (!(field[22] >= 0)) return {};
  static const double tick_seconds = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  static const double page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  const std::array values{
      field[14] * tick_seconds, field[15] * tick_seconds, field[10], field[12], field[20], field[23],
      field[24] * page_bytes};
  std::ranges::copy(values, row.begin() + kOfStat);
  return static_cast<uint64_t>(field[22]);
}

void take_status(std::string_view text, std::span<double> row) {
  for (size_t i = kOfStatus; i < kOfIo; ++i) {
    const bool is_memory = kMetrics[i].kind == Kind::kGauge;  // the kernel says those in KiB
    row[i] = keyed(text, kMetrics[i].name) * (is_memory ? 1024 : 1);
  }
}

void take_dev(std::string_view text, std::span<double> row) {
  next_line(text);
  next_line(text);
  std::array<double, 4> sums{};
  while (!text.empty()) {
    std::string_view line = next_line(text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    line.remove_prefix(colon + 1);
    std::array<double, 10> field{};
    for (double& one : field)
      one = number(next_word(line));
    sums[0] += field[0];
    sums[1] += field[1];
    sums[2] += field[8];
    sums[3] += field[9];
  }
  std::ranges::copy(sums, row.begin() + kOfDev);
}

}  // namespace

ProcFile::ProcFile(ProcFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

void ProcFile::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::optional<std::string_view> ProcFile::read(const std::string& path, std::span<char> buffer) {
  // The second try is for a file that belonged to a process which has ended: another one may have its number.
  for (int tries = 0; tries < 2; ++tries) {
    if (fd_ < 0) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return {};
    size_t have = 0;
    ssize_t got = 0;
    while (have < buffer.size()) {
      got = ::pread(fd_, buffer.data() + have, buffer.size() - have, static_cast<off_t>(have));
      if (got > 0) have += static_cast<size_t>(got);
      if (got < static_cast<ssize_t>(kLeastPart)) break;
    }
    if (got >= 0 && have > 0) return std::string_view(buffer.data(), have);
    close();
  }
  return {};
}

std::span<const Metric> ProcessSampler::metrics() {
  return kMetrics;
}

ProcessSampler::ProcessSampler(uint32_t pid, const std::string& proc, std::string groups)
    : meminfo_(proc + "/meminfo"), groups_(std::move(groups)), buffer_(kBufferBytes) {
  const std::string folder = proc + "/" + std::to_string(pid) + "/";
  for (size_t i = 0; i < kFiles; ++i)
    paths_[i] = folder + kNames[i];
  limits_ = folder + "limits";
  group_ = folder + "cgroup";
  descriptors_ = folder + "fd";
}

double ProcessSampler::open_descriptors() const {
  // Since Linux 6.2 the size of the folder is the number of its entries, which saves reading thousands of them.
  struct stat status{};
  struct statfs system{};
  if (::stat(descriptors_.c_str(), &status) != 0) return kUnknown;
  if (status.st_size > 0 && ::statfs(descriptors_.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
    return static_cast<double>(status.st_size);
  DIR* directory = ::opendir(descriptors_.c_str());
  if (directory == nullptr) return kUnknown;
  double count = -2;  // "." and ".."
  while (::readdir(directory) != nullptr)
    ++count;
  ::closedir(directory);
  return count;
}

double ProcessSampler::descriptors_limit() {
  constexpr std::string_view kLine = "Max open files";
  ProcFile file;
  auto text = file.read(limits_, buffer_);
  while (text && !text->empty()) {
    std::string_view line = next_line(*text);
    if (!line.starts_with(kLine)) continue;
    line.remove_prefix(kLine.size());
    return number(next_word(line));
  }
  return kUnknown;
}

double ProcessSampler::memory_limit() {
  constexpr std::string_view kVersion2 = "0::";
  ProcFile meminfo, group, most;
  double limit = kUnknown;
  if (const auto text = meminfo.read(meminfo_, buffer_)) limit = keyed(*text, "MemTotal") * 1024;
  auto text = group.read(group_, buffer_);
  while (text && !text->empty()) {
    const std::string_view line = next_line(*text);
    if (!line.starts_with(kVersion2)) continue;
    const std::string file = groups_ + std::string(line.substr(kVersion2.size())) + "/memory.max";
    if (auto allowed = most.read(file, buffer_)) limit = std::fmin(limit, number(next_line(*allowed)));
    break;
  }
  return limit;
}

Presence ProcessSampler::sample(std::span<double> row) {
  KINTSUGI_ASSERT(row.size() == std::size(kMetrics));
  std::ranges::fill(row, kUnknown);
  const auto stat = read(kStat);
  const auto started = stat ? take_stat(*stat, row) : std::nullopt;
  // Open files of the network belong to the namespace and can be read when the process has ended: they must not be
  // taken for those of its successor.
  if (!started || (started_ && *started != *started_))
    for (ProcFile& file : files_)
      file.close();
  if (!started) return Presence::kGone;
  const bool restarted = started_ && *started != *started_;
  started_ = started;
  if (auto text = read(kSchedstat)) {
    row[kOfSchedstat] = number(next_word(*text));
    row[kOfSchedstat + 1] = number(next_word(*text));
  }
  if (const auto text = read(kStatus)) take_status(*text, row);
  if (const auto text = read(kIo))
    for (size_t i = kOfIo; i < kOfDescriptors; ++i)
      row[i] = keyed(*text, kMetrics[i].name);
  row[kOfDescriptors] = open_descriptors();
  if (const auto text = read(kDev)) take_dev(*text, row);
  if (const auto text = read(kSnmp)) {
    row[kOfSnmp] = tabled(*text, "Tcp:", "RetransSegs");
    row[kOfSnmp + 1] = tabled(*text, "Tcp:", "CurrEstab");
  }
  if (const auto text = read(kNetstat)) {
    row[kOfNetstat] = tabled(*text, "TcpExt:", "TCPTimeouts");
    row[kOfNetstat + 1] = tabled(*text, "TcpExt:", "ListenDrops");
  }
  if (const auto text = read(kSockstat)) {
    row[kOfSockstat] = named(*text, "TCP:", "inuse");
    row[kOfSockstat + 1] = named(*text, "TCP:", "mem") * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return restarted ? Presence::kRestarted : Presence::kHere;
}

}  // namespace kintsugi::sampling
