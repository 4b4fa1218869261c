#include "chunkserver/store/disk/identity.h"

#include "chunkserver/store/disk/aligned_memory.h"
#include "chunkserver/store/disk/bytes.h"
#include "common/base/crc32c.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint32_t kIdentityMagic = 0x4449534B;  // "KSID"
constexpr size_t kBytes = runtime::kDiskAlignment;
constexpr size_t kMaxClusterBytes = 255;

std::string path_of(const DataDisk& disk) {
  return disk.root() + "/" + kIdentityFile;
}

}  // namespace

asio::awaitable<Result<Identity>> load_identity(DataDisk& disk) {
  std::string path = path_of(disk);
  auto file = co_await disk.disk().open(path, runtime::OpenMode::kRead);
  if (!file && file.error().code() == Code::kNotFound) co_return Identity{};
  if (!file) co_return disk.note(file.error());
  AlignedMemory memory(kBytes);
  auto read = co_await (*file)->read(0, memory.span());
  if (!read) co_return disk.note(read.error());
  ByteReader reader(memory.first(*read));
  uint32_t magic = reader.get<uint32_t>();
  uint32_t crc = reader.get<uint32_t>();
  Identity identity;
  identity.server = ServerId(reader.get<uint64_t>());
  identity.cluster = reader.get_text();
  identity.metadata.epoch = reader.get<uint64_t>();
  identity.metadata.position = reader.get<uint64_t>();
  // A file from before these fields has zeros here.
  identity.number = reader.get<uint32_t>();
  identity.format = reader.get<uint32_t>();
  if (!reader.ok() || magic != kIdentityMagic || !identity.server ||
      crc32c(memory.first(*read).subspan(8)) != crc) {
    co_return Status{Code::kCorrupt, path + " is damaged"};
  }
  co_return identity;
}

asio::awaitable<Status> save_identity(DataDisk& disk, Identity identity) {
  if (identity.cluster.size() > kMaxClusterBytes) {
    co_return Status{Code::kInvalidArgument, "the cluster's id is too long"};
  }
  AlignedMemory memory(kBytes);
  ByteWriter writer(memory.span().subspan(8));
  writer.put(identity.server.value);
  writer.put_text(identity.cluster);
  writer.put(identity.metadata.epoch);
  writer.put(identity.metadata.position);
  writer.put(identity.number);
  writer.put(identity.format);
  ByteWriter start(memory.span());
  start.put(kIdentityMagic);
  start.put(crc32c(memory.span().subspan(8)));

  std::string temporary = disk.temporary_directory() + "/" + kIdentityFile;
  std::string path = path_of(disk);
  // An attempt that failed may have left a file. Whether it could be removed shows when the new one is opened.
  (void)co_await disk.disk().remove(temporary);
  auto file = co_await disk.disk().open(temporary, runtime::OpenMode::kCreate);
  if (!file) co_return disk.note(file.error());
  KINTSUGI_CO_TRY(disk.note(co_await (*file)->write(0, memory.span())));
  KINTSUGI_CO_TRY(disk.note(co_await (*file)->sync()));
  KINTSUGI_CO_TRY(disk.note(co_await disk.disk().rename(temporary, path)));
  co_return disk.note(co_await disk.disk().sync_directory(disk.root()));
}

}  // namespace kintsugi::chunkserver
