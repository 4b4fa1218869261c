#include "client/capi/file.h"

#include <algorithm>

#include <fcntl.h>
#include <linux/falloc.h>

#include "client/capi/attributes.h"
#include "common/posix/set_ids.h"

namespace kintsugi::capi {
namespace {

Status closed() {
  return {Code::kBadHandle, "the file is closed"};
}

}  // namespace

/// An operation runs on the file, which close() waits for.
class File::Use {
 public:
  explicit Use(File& file) : file_(file.closing_ ? nullptr : &file) {
    if (file_) ++file_->uses_;
  }
  ~Use() {
    if (file_ && --file_->uses_ == 0) file_->idle_->notify_all();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  explicit operator bool() const { return file_ != nullptr; }

 private:
  File* const file_;
};

File::File(ConnectionPtr connection, std::unique_ptr<client::OpenHandle> handle, int flags)
    : connection_(std::move(connection)),
      flags_(flags),
      handle_(std::move(handle)),
      idle_(std::make_unique<runtime::Event>(connection_->runtime())) {}

FilePtr File::open(ConnectionPtr connection, std::unique_ptr<client::OpenHandle> handle, int flags) {
  FilePtr file(new File(connection, std::move(handle), flags));
  connection->open().insert(file);
  return file;
}

bool File::readable() const {
  return (flags_ & O_ACCMODE) != O_WRONLY;
}

bool File::writable() const {
  return (flags_ & O_ACCMODE) != O_RDONLY;
}

Status File::may_write() const {
  if (writable()) return {};
  return {Code::kBadHandle, "the file is not open for writing"};
}

bool File::kills_privileges() const {
  return connection_->caller().uid() != 0 && (handle_->file().attributes().mode() & posix::kSetIdBits) != 0;
}

asio::awaitable<Outcome> File::close(FilePtr self) {
  if (self->closing_) co_return closed();
  self->closing_ = true;
  while (self->uses_ > 0)
    co_await self->idle_->wait();
  const Status status = co_await self->handle_->close(self->connection_->context(), /*wait=*/true);
  self->handle_.reset();
  self->idle_.reset();
  self->connection_->open().erase(self);
  co_return outcome_of(status);
}

asio::awaitable<Outcome> File::read(FilePtr self, std::span<std::byte> into, uint64_t offset) {
  const Use use(*self);
  if (!use) co_return closed();
  if (!self->readable()) co_return Status{Code::kBadHandle, "the file is not open for reading"};
  const auto bytes = co_await self->handle_->file().read(self->connection_->context(), offset, into);
  if (!bytes) co_return bytes.error();
  co_return static_cast<int64_t>(*bytes);
}

asio::awaitable<Outcome> File::write(FilePtr self, std::span<const std::byte> bytes, uint64_t offset) {
  const Use use(*self);
  if (!use) co_return closed();
  KINTSUGI_CO_TRY(self->may_write());
  client::OpenFile& file = self->handle_->file();
  if ((self->flags_ & O_APPEND) != 0) {
    const auto at = co_await file.append(self->connection_->context(), bytes, self->kills_privileges());
    if (!at) co_return at.error();
  } else {
    KINTSUGI_CO_TRY(
        co_await file.write(self->connection_->context(), offset, bytes, self->kills_privileges()));
  }
  if ((self->flags_ & (O_SYNC | O_DSYNC)) != 0)
    KINTSUGI_CO_TRY(co_await self->handle_->sync(self->connection_->context()));
  co_return static_cast<int64_t>(bytes.size());
}

asio::awaitable<Outcome> File::sync(FilePtr self) {
  const Use use(*self);
  if (!use) co_return closed();
  co_return outcome_of(co_await self->handle_->sync(self->connection_->context()));
}

asio::awaitable<Outcome> File::truncate(FilePtr self, uint64_t size) {
  const Use use(*self);
  if (!use) co_return closed();
  // A file that is open for reading only is EINVAL here and not EBADF, as ftruncate(2) has it.
  if (!self->writable()) co_return Status{Code::kInvalidArgument, "the file is not open for writing"};
  co_return co_await self->set_size(size);
}

asio::awaitable<Outcome> File::empty(FilePtr self) {
  const Use use(*self);
  if (!use) co_return closed();
  if (self->handle_->file().size() == 0) co_return int64_t{0};
  co_return co_await self->set_size(0);
}

asio::awaitable<Outcome> File::set_size(uint64_t size) {
  proto::SetAttributesRequest request;
  *request.mutable_caller() = connection_->caller();
  request.set_size(size);
  request.set_opened_for_writing(true);
  request.set_kill_privileges(kills_privileges());
  const auto changed = co_await handle_->file().set_attributes(connection_->context(), std::move(request));
  if (!changed) co_return changed.error();
  co_return int64_t{0};
}

asio::awaitable<Outcome> File::allocate(FilePtr self, int mode, uint64_t offset, uint64_t length) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  const Use use(*self);
  if (!use) co_return closed();
  KINTSUGI_CO_TRY(self->may_write());
  client::AllocateMode how;
  how.keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  how.punch_hole = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  how.zero_range = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  const bool known = (mode & ~kKnown) == 0 && !(how.punch_hole && (!how.keep_size || how.zero_range));
  if (!known) co_return Status{Code::kNotSupported, "this mode of allocation is not supported"};
  co_return outcome_of(
      co_await self->handle_->file().allocate(self->connection_->context(), how, offset, length));
}

asio::awaitable<Outcome> File::seek(FilePtr self, uint64_t offset, bool data) {
  const Use use(*self);
  if (!use) co_return closed();
  client::OpenFile& file = self->handle_->file();
  const auto found = data ? co_await file.seek_data(self->connection_->context(), offset)
                          : co_await file.seek_hole(self->connection_->context(), offset);
  if (found) co_return static_cast<int64_t>(*found);
  const Code code = found.error().code();
  // An offset beyond the end is ENXIO, as lseek(2) has it.
  if (code == Code::kNoData || code == Code::kRange)
    co_return Status{Code::kNoDevice, found.error().message()};
  co_return found.error();
}

asio::awaitable<Outcome> File::copy_range(FilePtr from, uint64_t from_offset, FilePtr to, uint64_t to_offset,
                                          uint64_t length) {
  const Use from_use(*from), to_use(*to);
  if (!from_use || !to_use) co_return closed();
  if (!from->readable()) co_return Status{Code::kBadHandle, "the file is not open for reading"};
  KINTSUGI_CO_TRY(to->may_write());
  client::OpenFile& source = from->handle_->file();
  client::OpenFile& target = to->handle_->file();
  const uint64_t size = source.size();
  length = from_offset >= size ? 0 : std::min(length, size - from_offset);
  if (length == 0) co_return int64_t{0};
  if (to_offset > uint64_t{INT64_MAX} - length)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  const uint64_t apart = std::max(from_offset, to_offset) - std::min(from_offset, to_offset);
  if (source.inode() == target.inode() && apart < length)
    co_return Status{Code::kInvalidArgument, "the ranges overlap"};
  const auto copied =
      co_await target.copy_range(to->connection_->context(), source, from_offset, to_offset, length);
  if (!copied) co_return copied.error();
  co_return static_cast<int64_t>(*copied);
}

asio::awaitable<Outcome> File::stat(FilePtr self, struct kintsugi_stat* into) {
  const Use use(*self);
  if (!use) co_return closed();
  const auto told =
      co_await self->connection_->calls().get(self->connection_->context(), self->handle_->file().inode());
  if (!told) co_return told.error();
  fill(*into, *self->connection_, *told);
  co_return int64_t{0};
}

}  // namespace kintsugi::capi
