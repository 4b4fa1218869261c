#include "common/runtime/tls/tls_session.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "common/base/assert.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/openssl_types.h"
#include "common/runtime/tls/tls_refusal.h"

namespace kintsugi::runtime {

struct SessionBio {
  static int read(BIO* bio, char* into, int bytes) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const size_t taken = std::min(session.input().size(), static_cast<size_t>(bytes));
    if (taken == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(into, session.input().data(), taken);
    session.input_begin_ += taken;
    return static_cast<int>(taken);
  }
  static int write(BIO* bio, const char* from, int bytes) {
    auto& output = static_cast<TlsSession*>(BIO_get_data(bio))->output_;
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    output.insert(output.end(), begin, begin + bytes);
    return bytes;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kintsugi buffers");
      KINTSUGI_ASSERT(method != nullptr);
      BIO_meth_set_read(method, read);
      BIO_meth_set_write(method, write);
      BIO_meth_set_ctrl(method, control);
      BIO_meth_set_create(method, create);
      return method;
    }();
    return made;
  }
};

TlsSession::TlsSession(std::shared_ptr<const TlsIdentity> identity, TlsEnd end, std::string host,
                       WallTime now)
    : identity_(std::move(identity)), peer_{end, std::move(host), now, {}} {
  ssl_ = SSL_new(identity_->context());
  BIO* bio = BIO_new(SessionBio::method());
  KINTSUGI_ASSERT(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_, bio, bio);
  check_tls_peer(*ssl_, peer_);
  if (end != TlsEnd::kClient) {
    SSL_set_accept_state(ssl_);
    return;
  }
  X509_VERIFY_PARAM* demands = SSL_get0_param(ssl_);
  // The interface of a link-local address ("fe80::1%eth0") means something on this host only.
  const bool is_v6 = peer_.host.find(':') != std::string::npos;
  const std::string dialled = is_v6 ? peer_.host.substr(0, peer_.host.find('%')) : peer_.host;
  boost::system::error_code is_name;
  (void)asio::ip::make_address(dialled, is_name);
  X509_VERIFY_PARAM_set_hostflags(demands,
                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const int set = is_name ? X509_VERIFY_PARAM_set1_host(demands, dialled.data(), dialled.size())
                          : X509_VERIFY_PARAM_set1_ip_asc(demands, dialled.c_str());
  KINTSUGI_ASSERT(set == 1);
  SSL_set_connect_state(ssl_);
}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
}

Result<bool> TlsSession::shake_hands() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done == 1) return true;
  if (SSL_get_error(ssl_, done) == SSL_ERROR_WANT_READ) return false;
  return tls_refusal(*ssl_, *identity_, peer_);
}

PeerProof TlsSession::peer_proof() const {
  X509* certificate = SSL_is_init_finished(ssl_) == 1 ? SSL_get0_peer_certificate(ssl_) : nullptr;
  if (certificate == nullptr) return PeerProof::kNothing;
  return why_not_in_role(certificate, CertificateRole::kServer).empty() ? PeerProof::kHost
                                                                        : PeerProof::kCertificate;
}

Result<size_t> TlsSession::read(std::span<std::byte> into) {
  if (!broken_.ok()) return broken_;
  size_t got = 0;
  while (got < into.size() && !ended_) {
    ERR_clear_error();
    size_t bytes = 0;
    const int done = SSL_read_ex(ssl_, into.data() + got, into.size() - got, &bytes);
    got += bytes;
    if (done == 1) continue;
    const int why = SSL_get_error(ssl_, done);
    if (why == SSL_ERROR_WANT_READ) break;
    ended_ = why == SSL_ERROR_ZERO_RETURN;
    if (!ended_) broken_ = tls_refusal(*ssl_, *identity_, peer_);
    if (!ended_ && got == 0) return broken_;
    break;
  }
  return got;
}

Status TlsSession::write(std::span<const std::byte> bytes) {
  ERR_clear_error();
  const uint64_t records = bytes.size() / kRecordBytes + 1;
  if (records_ + records > records_of_a_key) {
    SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
    records_ = 0;
  }
  records_ += records;
  size_t written = 0;
  const int done = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written);
  if (done == 1 && written == bytes.size()) return {};
  return {Code::kUnavailable, "write: TLS: " + take_openssl_error()};
}

std::span<std::byte> TlsSession::room(size_t wanted) {
  const size_t held = input_end_ - input_begin_;
  // A buffer that was large for many bytes is not kept for a few.
  if (held + wanted > input_.size() || (held == 0 && input_.size() > 2 * wanted)) {
    std::vector<std::byte> other(held + wanted);
    if (held > 0) std::memcpy(other.data(), input().data(), held);
    input_ = std::move(other);
  } else if (held > 0) {
    std::memmove(input_.data(), input().data(), held);
  }
  input_begin_ = 0;
  input_end_ = held;
  return std::span(input_).subspan(input_end_);
}

}  // namespace kintsugi::runtime
