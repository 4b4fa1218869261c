/// Reads what the kernel says of one process below /proc, as a row of doubles.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::sampling {

/// A counter only grows as long as the process lives: readers take its difference. A gauge is taken as it is.
enum class Kind : uint8_t { kCounter, kGauge };
struct Metric {
  std::string_view name;
  Kind kind;
};

/// kRestarted: another process has the number now than at the sample before. kGone: there is none, or it may not be
/// read at all.
enum class Presence : uint8_t { kHere, kRestarted, kGone };

/// A file below /proc that stays open between two readings.
class ProcFile {
 public:
  ProcFile() = default;
  ~ProcFile() { close(); }
  ProcFile(ProcFile&& other) noexcept;
  ProcFile& operator=(ProcFile&&) = delete;

  /// Reads the whole file, as far as it fits into `buffer`. Opens it when it is not open, or when the process that it
  /// belonged to has ended. None: it is not there, or may not be read.
  std::optional<std::string_view> read(const std::string& path, std::span<char> buffer);
  void close();

 private:
  int fd_ = -1;
};

/// A value that could not be read (a missing file, no permission) is NaN; nothing here fails. Times in utime and stime
/// are seconds, names with ns nanoseconds; memory is in bytes. cpu_ns and run_delay_ns are those of the process's first
/// thread, which is the loop of a daemon; utime and stime are those of all threads. Values of the network are those of
/// the network namespace of the process, loopback included. Not thread-safe. It keeps up to nine descriptors open.
class ProcessSampler {
 public:
  /// The names of the values of a row, in order.
  static std::span<const Metric> metrics();

  /// `proc` and `groups`: the folders to read instead of /proc and of the control groups, for tests.
  explicit ProcessSampler(uint32_t pid, const std::string& proc = "/proc",
                          std::string groups = "/sys/fs/cgroup");

  /// REQUIRES: row.size() == metrics().size().
  Presence sample(std::span<double> row);

  /// How many descriptors the process may have open now; NaN: not known.
  double descriptors_limit();
  /// How many bytes of memory the process may have: what its machine has, or its control group (version 2) allows if that
  /// is less. NaN: not known.
  double memory_limit();

 private:
  static constexpr size_t kFiles = 8;

  std::optional<std::string_view> read(size_t file) { return files_[file].read(paths_[file], buffer_); }
  double open_descriptors() const;

  std::array<std::string, kFiles> paths_;
  std::array<ProcFile, kFiles> files_;
  std::string limits_;
  std::string meminfo_;      ///< the file with the memory of the machine
  std::string group_;        ///< the file that names the control group of the process
  std::string groups_;       ///< the folder of all control groups
  std::string descriptors_;  ///< the folder with an entry for each open descriptor
  std::vector<char> buffer_;
  std::optional<uint64_t> started_;  ///< start of the process in the last sample, in ticks since the boot
};

}  // namespace kintsugi::sampling
