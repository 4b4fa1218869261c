#include "client/capi/attributes.h"

#include "client/lib/files/file_mode.h"
#include "common/base/math.h"

namespace kintsugi::capi {

void fill(struct kintsugi_stat& into, Connection& connection, const proto::Attributes& told) {
  proto::Attributes known = told;
  if (const auto file = connection.files().find(told.inode())) {
    file->adopt(told);
    known = file->attributes();
  }
  into = {};
  into.ino = known.inode();
  into.size = known.size();
  into.blocks = divide_up(known.used_bytes(), uint64_t{512});
  into.mode = client::type_bits(known.type()) | known.mode();
  into.nlink = known.links();
  into.uid = known.uid();
  into.gid = known.gid();
  into.rdev = known.device();
  into.atime_ns = known.accessed_ns();
  into.mtime_ns = known.modified_ns();
  into.ctime_ns = known.changed_ns();
}

}  // namespace kintsugi::capi
