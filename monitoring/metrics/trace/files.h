/// Traces on disk: read from one file or a directory, and written to a directory of which the oldest part is given up.
#pragma once

#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

/// The trace of a file (".csv": a table, else as encode() makes it) or of a directory of TraceFiles. In a directory a file
/// may end in the middle of a row, as a killed writer leaves it. Errors name the path: kNotFound, kIoError, kCorrupt,
/// kLimitExceeded (more than kMostReadBytes).
Result<Trace> read_trace(const std::string& path);
inline constexpr uint64_t kMostReadBytes = uint64_t{4} << 30;

/// The same of a part in time: `name` is PATH or PATH@FROM..TO, in seconds since 1970; one of them may be left out.
/// kInvalidArgument: FROM or TO is no time; others: as read_trace().
Result<Trace> read_part(const std::string& name);

/// Gives `use` the files of a directory of TraceFiles one by one, the oldest first, so that no more than one is in memory;
/// those that end before `since_ns` are left out as a whole. A file that is dropped or damaged meanwhile is passed over.
/// kNotFound: there is no directory, or no file in it. kCancelled: `stop` says that nobody wants them any more. Another
/// process may write to the directory.
Status for_each_part(const std::string& directory, int64_t since_ns,
                     const std::function<void(Trace part)>& use, const std::stop_token& stop = {});

/// The header that rows have now: that of the youngest file. kNotFound: as above.
Result<Header> latest_header(const std::string& directory);

/// All sources, metrics and regions that any file has: also of a server that is gone. kNotFound: as above.
Result<Header> known_header(const std::string& directory);

/// Replaces the file.
Status write_trace(const std::string& path, const Trace& trace);

struct TraceFilesOptions {
  std::string directory;  ///< created if necessary
  uint64_t most_bytes = uint64_t{2} << 30;
  std::chrono::nanoseconds most_time = std::chrono::hours(24);
};

/// Writes rows as they come. A directory of files of which each covers a twenty-fourth of the limits; the oldest go.
/// Takes time from the rows alone. Not for several threads at a time.
class TraceFiles {
 public:
  static constexpr uint64_t kFiles = 24;

  /// Goes on after the files that are there. kInvalidArgument: the header; kIoError and others: the directory.
  static Result<std::unique_ptr<TraceFiles>> open(TraceFilesOptions options, Header header);

  /// After an error nothing of the row counts, and the next row begins a new file. What has restarted is another process
  /// in the headers of later files, too.
  Status append(const Row& row);
  /// Rows have other metrics from now on: the next one begins a new file. kInvalidArgument: nothing is changed.
  Status change(Header header);
  const Header& header() const { return header_; }

  uint64_t bytes() const;

 private:
  struct File {
    uint64_t number = 0;
    uint64_t bytes = 0;
    int64_t began_ns = 0;  ///< time of its first row; of a file that cannot be read, when it was written
  };
  TraceFiles(TraceFilesOptions options, Header header)
      : options_(std::move(options)), header_(std::move(header)) {}

  std::string path(uint64_t number) const;
  Status find_files();
  Status begin_file(int64_t t_ns);
  void drop_oldest();
  void make_room(int64_t t_ns);
  Status write(const std::string& bytes);

  const TraceFilesOptions options_;
  Header header_;
  std::deque<File> files_;  ///< oldest first
  std::ofstream file_;      ///< the last one; closed: the next row begins one
  uint64_t next_number_ = 1;
};

}  // namespace kintsugi::metric_trace
