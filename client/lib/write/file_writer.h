/// Writes one whole file: stripe after stripe, then one atomic commit.
#pragma once

#include <functional>
#include <string>

#include "client/lib/io.h"
#include "client/lib/resources.h"
#include "client/lib/write/dense_source.h"
#include "client/lib/write/upload.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

class StripedWriter;

struct WriteOptions {
  uint32_t mode = 0644;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t modified_ns = 0;  ///< nanoseconds since 1970; 0: the current time
  bool replace = false;     ///< if false, a path that exists is kAlreadyExists
  std::string policy = {};  ///< policy to use instead of the directory's; empty: the directory's
  /// Called with the size of each portion that was sent to the servers.
  std::function<void(uint64_t bytes)> progress = {};
};

/// Use once: `run` writes the file and returns when it is durable. Whatever fails or is interrupted leaves what was at
/// the path before.
///
/// A file of at most one cell goes to a stripe with k = 1: as many copies as survive what its policy survives, which
/// is what parity of a single cell costs as well, and any one of them can be read.
class FileWriter {
 public:
  FileWriter(Resources& resources, Context context, std::string path, Source& source, WriteOptions options);

  /// Ok: the file is durable, with these attributes.
  asio::awaitable<Status> run(proto::Attributes& attributes);

 private:
  asio::awaitable<Status> commit(StripedWriter& stripes, proto::Attributes& attributes);

  Resources& resources_;
  Context context_;
  DenseSource source_;
  const WriteOptions options_;
  Upload upload_;
};

}  // namespace kintsugi::client
