#include "client/lib/write/file_writer.h"

#include "client/lib/write/striped_writer.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kWriteFile{"client.write_file", {}, {"bytes"}};

}  // namespace

FileWriter::FileWriter(Resources& resources, Context context, std::string path, Source& source,
                       WriteOptions options)
    : resources_(resources),
      context_(context),
      source_(source),
      options_(std::move(options)),
      upload_(resources, {.path = std::move(path)}, options_.policy, source_.size()) {}

asio::awaitable<Status> FileWriter::run(proto::Attributes& attributes) {
  sight::Module module(context_, kWriteFile);
  context_ = module.context();
  StripedWriter stripes(resources_, context_, upload_, source_, upload_.file().name(), options_.progress);
  Status status = co_await stripes.run();
  module.output(0, static_cast<double>(stripes.written()));
  if (status.ok()) status = co_await commit(stripes, attributes);
  if (!status.ok()) co_await upload_.abort(context_);
  co_return module.finish(status);
}

asio::awaitable<Status> FileWriter::commit(StripedWriter& stripes, proto::Attributes& attributes) {
  proto::CommitFileRequest request;
  request.set_size(source_.file_size(stripes.written()));
  request.set_mode(options_.mode);
  request.set_uid(options_.uid);
  request.set_gid(options_.gid);
  const auto now = resources_.runtime.clock.wall_now().time_since_epoch().count();
  request.set_modified_ns(options_.modified_ns != 0 ? options_.modified_ns : now);
  request.set_replace(options_.replace);
  stripes.add_extents(*request.mutable_extents());
  *request.mutable_extents() = source_.unpack(request.extents());
  stripes.take_sealed(*request.mutable_sealed());
  return upload_.commit(context_, std::move(request), attributes);
}

}  // namespace kintsugi::client
