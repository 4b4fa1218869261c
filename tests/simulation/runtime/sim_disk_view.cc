#include "tests/simulation/runtime/sim_disk_view.h"

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {

bool aligned(uint64_t value) {
  return value % runtime::kDiskAlignment == 0;
}
bool aligned(const void* address) {
  return aligned(reinterpret_cast<uintptr_t>(address));
}

}  // namespace

asio::awaitable<Status> DiskView::perform(DiskOp op, const std::string& path) {
  SimDisk::Request request{op, path, disk_.volume_of(path)};
  return disk_.perform(life_, std::move(request));
}

asio::awaitable<Result<std::unique_ptr<runtime::File>>> DiskView::open(std::string path,
                                                                       runtime::OpenMode mode) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kOpen, path));
  InodePtr inode;
  const bool for_writing = mode != runtime::OpenMode::kRead;
  if (for_writing && disk_.volume_of(path)->read_only)
    co_return Status{Code::kReadOnlyDevice, path + ": read-only file system"};
  if (mode == runtime::OpenMode::kCreate) {
    KINTSUGI_CO_ASSIGN(inode, disk_.tree_.make_file(path, disk_.volume_of(path), now()));
  } else {
    KINTSUGI_CO_ASSIGN(inode, disk_.tree_.find(path));
    if (inode->is_directory) co_return Status{Code::kIsDirectory, path + ": is a directory"};
  }
  co_return std::make_unique<SimFile>(disk_, life_, std::move(inode), std::move(path), for_writing);
}

asio::awaitable<Status> DiskView::rename(std::string from, std::string to) {
  if (disk_.volume_of(from) != disk_.volume_of(to)) {
    co_return Status{Code::kInvalidArgument, "rename " + from + " to " + to + ": not on one volume"};
  }
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kRename, from));
  co_return disk_.tree_.rename(from, to, now());
}

asio::awaitable<Status> DiskView::remove(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kRemove, path));
  co_return disk_.tree_.remove(path, now());
}

asio::awaitable<Status> DiskView::make_directory(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kMakeDirectory, path));
  if (disk_.volume_of(path)->read_only && !disk_.exists(path))
    co_return Status{Code::kReadOnlyDevice, path + ": read-only file system"};
  co_return disk_.tree_.make_directory(path, now());
}

asio::awaitable<Status> DiskView::sync_directory(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kSyncDirectory, path));
  co_return disk_.tree_.sync_directory(path);
}

asio::awaitable<Result<std::vector<std::string>>> DiskView::list(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kList, path));
  co_return disk_.tree_.list(path);
}

asio::awaitable<Result<runtime::DiskSpace>> DiskView::space(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kSpace, path));
  const auto volume = disk_.volume_of(path);
  co_return runtime::DiskSpace{volume->capacity_bytes, volume->free_bytes(),
                               disk_.name_ ^ mix_bits(hash_name(volume->prefix))};
}

asio::awaitable<Result<runtime::FileAttributes>> DiskView::attributes(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kAttributes, path));
  KINTSUGI_CO_ASSIGN(const InodePtr inode, disk_.tree_.find(path));
  co_return runtime::FileAttributes{.identity = {.device = 1, .inode = inode->number},
                                    .bytes = inode->content.current().size()};
}

asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> DiskView::lock(std::string path) {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kLock, path));
  auto inode = disk_.tree_.find(path);
  if (!inode && inode.error().code() == Code::kNotFound)
    inode = disk_.tree_.make_file(path, disk_.volume_of(path), now());
  if (!inode) co_return inode.error();
  const SimLock* other = (*inode)->lock;
  if (other != nullptr && other->held()) co_return Status{Code::kConflict, path + ": is locked already"};
  co_return std::make_unique<SimLock>(life_, std::move(*inode));
}

asio::awaitable<Status> SimFile::perform(DiskOp op, uint64_t offset, uint64_t bytes,
                                         std::span<const std::byte> data) {
  SimDisk::Request request{op, path_, inode_->volume, offset, bytes};
  if (op == DiskOp::kWrite) {
    request.written = inode_;
    request.data = data;
  }
  return disk_.perform(life_, std::move(request));
}

Status SimFile::check_writable() const {
  return writable_ ? Status{} : Status{Code::kPermissionDenied, path_ + ": opened for reading only"};
}

asio::awaitable<Result<size_t>> SimFile::read(uint64_t offset, std::span<std::byte> into) {
  KINTSUGI_ASSERT(aligned(offset) && aligned(into.size()) && aligned(into.data()));
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kRead, offset, into.size()));
  const auto bad = inode_->bad_blocks.lower_bound(offset);
  if (bad != inode_->bad_blocks.end() && *bad < offset + into.size())
    co_return Status{Code::kMediumError, path_ + ": a block cannot be read"};
  disk_.counters_.bytes_read += into.size();
  co_return inode_->content.current().read(offset, into);
}

asio::awaitable<Status> SimFile::write(uint64_t offset, std::span<const std::byte> from) {
  KINTSUGI_ASSERT(aligned(offset) && aligned(from.size()) && aligned(from.data()));
  KINTSUGI_CO_TRY(check_writable());
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kWrite, offset, from.size(), from));
  const uint64_t end = offset + from.size();
  if (end > inode_->content.current().size())
    KINTSUGI_CO_TRY(inode_->charge(end).with_context("write " + path_));
  disk_.counters_.bytes_written += from.size();
  inode_->content.write(offset, from);
  inode_->bad_blocks.erase(inode_->bad_blocks.lower_bound(offset), inode_->bad_blocks.lower_bound(end));
  co_return Status{};
}

asio::awaitable<Status> SimFile::sync() {
  auto point = inode_->content.begin_sync();
  Status status = co_await perform(DiskOp::kSync);
  if (status.ok()) {
    inode_->content.finish_sync(std::move(point));
  } else if (life_->alive) {
    inode_->content.abandon_sync(point);
  }
  co_return status;
}

asio::awaitable<Status> SimFile::allocate(uint64_t bytes) {
  KINTSUGI_CO_TRY(check_writable());
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kAllocate));
  if (bytes > inode_->content.current().size()) {
    KINTSUGI_CO_TRY(inode_->charge(bytes).with_context("allocate " + path_));
    inode_->content.resize(bytes);
  }
  co_return Status{};
}

asio::awaitable<Status> SimFile::truncate(uint64_t bytes) {
  KINTSUGI_CO_TRY(check_writable());
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kTruncate));
  KINTSUGI_CO_TRY(inode_->charge(bytes).with_context("truncate " + path_));
  inode_->content.resize(bytes);
  co_return Status{};
}

asio::awaitable<Result<uint64_t>> SimFile::size() {
  KINTSUGI_CO_TRY(co_await perform(DiskOp::kSize));
  co_return inode_->content.current().size();
}

}  // namespace kintsugi::simulation
