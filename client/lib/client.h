/// The client library: what applications, the command line and the mount use.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/check_report.h"
#include "client/lib/files/open_files.h"
#include "client/lib/io.h"
#include "client/lib/meta_link.h"
#include "client/lib/operations/cluster_operations.h"
#include "client/lib/operations/diagnosis.h"
#include "client/lib/operations/directory_rules.h"
#include "client/lib/operations/path_operations.h"
#include "client/lib/options.h"
#include "client/lib/read/file_reader.h"
#include "client/lib/read/lost_chunk_read.h"
#include "client/lib/write/file_writer.h"
#include "common/base/status.h"
#include "common/proto/faults.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/secret.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::client {

/// One for a process is enough: any number of operations may run at once, within one bound on memory.
///
/// Operations are coroutines on the runtime's executor, like everything there; BlockingClient serves threads. Those
/// that may be repeated are, while the metaserver does not answer, for Options::retry_limit. Paths are absolute. Errors
/// carry the codes of Status: kNotFound, kAlreadyExists, kIsDirectory, ...
///
/// Declares the operations that move bytes. The base classes declare the others, one subject each.
class Client : public PathOperations, public DirectoryRules, public ClusterOperations, public Diagnosis {
 public:
  Client(const runtime::Runtime& runtime, Options options, rpc::Secret secret);
  ~Client();  ///< REQUIRES: stop() has returned

  /// The file is durable on return; whatever fails or is interrupted leaves what was at the path before.
  asio::awaitable<Result<proto::Attributes>> write(std::string path, Source& source,
                                                   WriteOptions options = {});
  /// Hands the range to `sink` in order, and returns the file's attributes. All bytes are those of one file: kConflict
  /// when it was replaced after the first of them.
  asio::awaitable<Result<proto::Attributes>> read(std::string path, Sink& sink, ReadOptions options = {});
  /// Fills `into` from `offset` on, with fewer bytes only at the end of the file; returns how many.
  asio::awaitable<Result<size_t>> read_at(std::string path, uint64_t offset, std::span<std::byte> into);
  /// Reads a range of one chunk of a stripe as if that chunk were lost; the sink's offsets are those in the chunk.
  asio::awaitable<Result<DegradedReadReport>> read_lost_chunk(uint64_t stripe_id, uint32_t index, Sink& sink,
                                                              LostReadOptions options = {});

  /// Files that are open for reading and writing, with a session of their own. It ends before this client stops.
  std::unique_ptr<OpenFiles> open_files(FilesOptions options = {},
                                        std::unique_ptr<DirtyMemory> memory = nullptr,
                                        ChangeJournal* journal = nullptr, std::span<std::byte> name_log = {},
                                        std::span<std::byte> own_locks = {});

  /// Has every chunk below `path` read on its server, parity too, and waits until what is damaged is repaired. Errors
  /// are those of the metaserver; what servers fail at is in the report.
  asio::awaitable<Result<DeepCheckReport>> deep_check(std::string path, DeepCheckOptions options = {});

  /// The root of work that runs beside these operations: recorded as theirs are.
  Context context() const;

  /// Every operation that is under way ends soon, and every later one at once, with kCancelled or with an error that
  /// says how the cancellation met it. A write that had begun gives its upload up first, so that its space is free
  /// soon. Waited for are only what the caller must end, its sources and sinks, and connections that are being made.
  void cancel();
  /// Ends the background tasks. REQUIRES: no operation is pending.
  asio::awaitable<void> stop();

 private:
  explicit Client(std::unique_ptr<ClusterClient> cluster);

  std::unique_ptr<ClusterClient> cluster_;
};

}  // namespace kintsugi::client
