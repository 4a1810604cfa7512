// The tweakable hash functions of SLH-DSA (FIPS 205, section 11): one thread a hash, all of it in registers.
//
// F, PRF and H of what fits into one block are what nearly all the time goes to. Their block is built from words and not
// from bytes, and what does not change along a WOTS+ chain is worked out before it: the compiler takes it out of the loop.
// Messages and whole WOTS+ keys, one or two an operation or a leaf, take code that is smaller.
#pragma once

#include "sha256_fast.cuh"
#include "sponge.cuh"

namespace gabion {

// The types of addresses (FIPS 205, table 1).
enum SlhType : uint32_t { WOTS_HASH, WOTS_PK, TREE, FORS_TREE, FORS_ROOTS, WOTS_PRF, FORS_PRF };

// An address ADRS (section 4.2). `chain` is the tree's height and `hash` the tree's index where those are meant.
struct SlhAddress {
    uint32_t layer;
    uint64_t tree;
    uint32_t type;
    uint32_t key_pair;
    uint32_t chain;
    uint32_t hash;
};

GABION_FN uint32_t reverse_bytes(uint32_t a) {
#if defined(__CUDA_ARCH__)
    return __byte_perm(a, 0, 0x0123);
#else
    return a >> 24 | (a >> 8 & 0xff00) | (a << 8 & 0xff0000) | a << 24;
#endif
}
GABION_FN uint64_t reverse_bytes_of_both(uint32_t first, uint32_t second) {
    return static_cast<uint64_t>(reverse_bytes(second)) << 32 | reverse_bytes(first);
}

// Values of `WORDS` words of eight bytes in memory: at multiples of 16 where their length is one.
template <unsigned WORDS> GABION_FN void load_words(const uint8_t *bytes, uint64_t (&words)[WORDS]) {
#pragma unroll
    for (unsigned i = 0; i < WORDS; i += 2) {
        if constexpr (WORDS % 2 == 0) {
            const Sixteen both = load128(bytes + 8 * i);
            words[i] = both.low, words[i + 1] = both.high;
        } else {
            words[i] = load64(bytes + 8 * i);
            if (i + 1 < WORDS)
                words[i + 1] = load64(bytes + 8 * i + 8);
        }
    }
}
template <unsigned WORDS> GABION_FN void store_words(uint8_t *bytes, const uint64_t (&words)[WORDS]) {
#pragma unroll
    for (unsigned i = 0; i < WORDS; i += 2) {
        if constexpr (WORDS % 2 == 0) {
            store128(bytes + 8 * i, Sixteen{words[i], words[i + 1]});
        } else {
            store64(bytes + 8 * i, words[i]);
            if (i + 1 < WORDS)
                store64(bytes + 8 * i + 8, words[i + 1]);
        }
    }
}

// Three strings of any lengths at any addresses, one after the other.
struct ThreeStrings {
    const uint8_t *first;
    uint32_t first_length;
    const uint8_t *second;
    uint32_t second_length;
    const uint8_t *third;
    uint32_t third_length;
    GABION_FN uint32_t size() const { return first_length + second_length + third_length; }
    GABION_FN uint8_t byte(uint32_t at) const {
        if (at < first_length)
            return first[at];
        at -= first_length;
        return at < second_length ? second[at] : third[at - second_length];
    }
    GABION_FN uint64_t word(uint32_t offset) const {
        uint64_t word = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < 8 && offset + i < size(); i++)
            word |= static_cast<uint64_t>(byte(offset + i)) << (8 * i);
        return word;
    }
};

// What a parameter set with n = `BYTES` needs of the operation whose messages are hashed.
struct SlhMessage {
    const uint8_t *sk_prf;   // null if there is no PRF_msg
    const uint8_t *opt_rand; // n bytes
    const uint8_t *pk;       // PK.seed and PK.root
    const uint8_t *formatted;
    uint32_t length; // of M'
    uint8_t *r;      // R, which PRF_msg makes
    uint8_t *digest; // 64 bytes, H_msg
    uint8_t *room;   // 256 bytes
};

// --- SHAKE (section 11.1) -------------------------------------------------------------------------------------------

// Keccak-f of a state most of whose lanes are known to be zero, and whose first lanes are all that is wanted: the compiler
// drops from the first and the last round what is not needed.
GABION_FN void keccak_f_of_one_block(uint64_t (&a)[25]) {
    constexpr uint64_t FIRST = ROUND_CONSTANTS.of[0], LAST = ROUND_CONSTANTS.of[23];
    keccak_round(a, FIRST);
#pragma unroll 1
    for (unsigned round = 1; round < 23; round += 2) {
        keccak_round(a, round_constant(round));
        keccak_round(a, round_constant(round + 1));
    }
    keccak_round(a, LAST);
}

template <unsigned BYTES_> struct SlhShake {
    static constexpr unsigned BYTES = BYTES_, LEN = 2 * BYTES + 3, WORDS = BYTES / 8, HEAD = WORDS + 4;
    static constexpr unsigned CONTEXT = 0; // bytes

    struct Value {
        uint64_t word[WORDS];
    };
    struct Key {
        Value seed;
    };

    static GABION_FN Value load(const uint8_t *bytes) {
        Value value;
        load_words(bytes, value.word);
        return value;
    }
    static GABION_FN void store(uint8_t *bytes, const Value &value) { store_words(bytes, value.word); }

    static GABION_FN void prepare(const uint8_t *, uint8_t *) {}
    static GABION_FN Key key(const uint8_t *pk_seed, const uint8_t *) { return Key{load(pk_seed)}; }

    // F and PRF.
    static GABION_FN Value f(const Key &key, const SlhAddress &address, const Value &m) {
        uint64_t a[25];
        begin(a, key, address);
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            a[HEAD + i] = m.word[i];
        return end<HEAD + WORDS>(a);
    }

    static GABION_FN Value h(const Key &key, const SlhAddress &address, const Value &left, const Value &right) {
        uint64_t a[25];
        begin(a, key, address);
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++) {
            a[HEAD + i] = left.word[i];
            a[HEAD + WORDS + i] = right.word[i];
        }
        return end<HEAD + 2 * WORDS>(a);
    }

    // T_l of `count` values in memory.
    static GABION_FN Value t(const Key &key, const SlhAddress &address, const uint8_t *values, uint32_t count) {
        constexpr unsigned RATE = RATE_256 / 8;
        const uint32_t words = count * WORDS, blocks = (HEAD + words) / RATE + 1;
        uint64_t a[25];
        begin(a, key, address);
#pragma unroll 1
        for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
            for (unsigned i = 0; i < RATE; i++) {
                const uint32_t at = block * RATE + i - HEAD;
                if ((i >= HEAD || block > 0) && at <= words)
                    a[i] ^= at < words ? load64(values + 8 * static_cast<size_t>(at)) : SHAKE;
            }
            if (block + 1 == blocks)
                a[RATE - 1] ^= static_cast<uint64_t>(1) << 63;
            keccak_f(a);
        }
        return value(a);
    }

    // PRF_msg and H_msg.
    static GABION_FN void hash_message(const SlhMessage &m) {
        uint64_t a[25];
#pragma unroll 1
        for (unsigned phase = m.sk_prf == nullptr ? 1 : 0; phase < 2; phase++) {
            const bool is_prf = phase == 0;
            const ThreeStrings message{is_prf ? m.sk_prf : m.r,    BYTES,       is_prf ? m.opt_rand : m.pk,
                                       is_prf ? BYTES : 2 * BYTES, m.formatted, m.length};
            absorb<RATE_256>(a, message, SHAKE);
            if (is_prf) {
                store(m.r, value(a));
                GABION_DECLASSIFY(m.r, BYTES); // R is the signature's first part (Algorithm 19, line 4).
            } else {
                squeeze<56>(a, m.digest);
            }
        }
    }

  private:
    // PK.seed and the address, the bytes of whose words stand the highest first.
    static GABION_FN void begin(uint64_t (&a)[25], const Key &key, const SlhAddress &address) {
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            a[i] = 0;
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            a[i] = key.seed.word[i];
        a[WORDS] = reverse_bytes_of_both(address.layer, 0);
        a[WORDS + 1] = reverse_bytes_of_both(static_cast<uint32_t>(address.tree >> 32), static_cast<uint32_t>(address.tree));
        a[WORDS + 2] = reverse_bytes_of_both(address.type, address.key_pair);
        a[WORDS + 3] = reverse_bytes_of_both(address.chain, address.hash);
    }
    static GABION_FN Value value(const uint64_t (&a)[25]) {
        Value value;
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            value.word[i] = a[i];
        return value;
    }
    // The hash of the first `COUNT` words.
    template <unsigned COUNT> static GABION_FN Value end(uint64_t (&a)[25]) {
        static_assert(COUNT <= 16, "one block");
        a[COUNT] ^= SHAKE;
        a[16] ^= static_cast<uint64_t>(1) << 63;
        keccak_f_of_one_block(a);
        return value(a);
    }
};

// --- SHA-2 (section 11.2) -------------------------------------------------------------------------------------------

// Sixteen rounds of SHA-512 from `base` on (FIPS 180-4, section 6.4.2), and the words sixteen rounds on where there are such.
template <bool IS_LAST> GABION_FN void sha512_rounds(uint64_t (&s)[8], uint64_t (&w)[16], unsigned base) {
#pragma unroll
    for (unsigned t = 0; t < 16; t++) {
        const uint64_t a = s[0], b = s[1], c = s[2], e = s[4], f = s[5], g = s[6];
        const uint64_t t1 = s[7] + Sha512::sum1(e) + ((e & f) ^ (~e & g)) + Sha512::k(base + t) + w[t];
        const uint64_t t2 = Sha512::sum0(a) + ((a & b) ^ (a & c) ^ (b & c));
        s[7] = g, s[6] = f, s[5] = e, s[4] = s[3] + t1, s[3] = c, s[2] = b, s[1] = a, s[0] = t1 + t2;
        if (!IS_LAST)
            w[t] += w[(t + 9) % 16] + Sha512::next0(w[(t + 1) % 16]) + Sha512::next1(w[(t + 14) % 16]);
    }
}

// The state after a block: compress of sha2.cuh with the last rounds apart, which need no more words. Half as
// much code again, and a twelfth less to do.
GABION_FN void sha512_block(uint64_t (&h)[8], uint64_t (&w)[16]) {
    uint64_t s[8];
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        s[i] = h[i];
#pragma unroll 1
    for (unsigned base = 0; base < 64; base += 16)
        sha512_rounds<false>(s, w, base);
    sha512_rounds<true>(s, w, 64);
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        h[i] += s[i];
}

// Hashes a message; `h` is the state to start from.
template <class Hash> GABION_FN void sha2_of_strings(typename Hash::Word (&h)[8], const ThreeStrings &message) {
    using Word = typename Hash::Word;
    constexpr unsigned WIDTH = sizeof(Word);
    const uint32_t length = message.size(), blocks = (length + 2 * WIDTH) / Hash::BLOCK_BYTES + 1;
    Word w[16];
#pragma unroll 1
    for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
        for (unsigned t = 0; t < 16; t++) {
            w[t] = 0;
#pragma unroll 1
            for (unsigned i = 0; i < WIDTH; i++) {
                const uint32_t at = block * Hash::BLOCK_BYTES + t * WIDTH + i;
                const uint8_t byte = at < length ? message.byte(at) : at == length ? 0x80 : 0;
                w[t] = w[t] << 8 | byte;
            }
        }
        if (block + 1 == blocks)
            w[15] |= static_cast<Word>(length) * 8; // below 2^32 bits, as the host sees to
        compress<Hash>(h, w);
    }
}

template <unsigned BYTES_> struct SlhSha2 {
    static constexpr unsigned BYTES = BYTES_, LEN = 2 * BYTES + 3, WORDS = BYTES / 4;
    static constexpr unsigned CONTEXT = 96; // bytes: the states of SHA-256 and of SHA-512 after PK.seed and zeros
    // H, T_l and what hashes messages: SHA-512 above security category 1.
    static constexpr bool IS_WIDE = BYTES > 16;

    struct Value {
        uint32_t word[WORDS];
    };
    struct Key {
        Sha256State state;
        const uint64_t *wide;
    };

    static GABION_FN Value load(const uint8_t *bytes) {
        uint64_t words[WORDS / 2];
        Value value;
        load_words(bytes, words);
#pragma unroll
        for (unsigned i = 0; i < WORDS; i += 2) {
            value.word[i] = reverse_bytes(static_cast<uint32_t>(words[i / 2]));
            value.word[i + 1] = reverse_bytes(static_cast<uint32_t>(words[i / 2] >> 32));
        }
        return value;
    }
    static GABION_FN void store(uint8_t *bytes, const Value &value) {
        uint64_t words[WORDS / 2];
#pragma unroll
        for (unsigned i = 0; i < WORDS; i += 2)
            words[i / 2] = reverse_bytes_of_both(value.word[i], value.word[i + 1]);
        store_words(bytes, words);
    }

    static GABION_FN void prepare(const uint8_t *pk_seed, uint8_t *context) {
        const Value seed = load(pk_seed);
        uint32_t *narrow = reinterpret_cast<uint32_t *>(context);
        uint32_t h[8], w[16];
        first_block<Sha256>(seed, h, w);
        compress<Sha256>(h, w);
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            narrow[i] = h[i];
        if constexpr (IS_WIDE) {
            uint64_t *wide = reinterpret_cast<uint64_t *>(context + 32);
            uint64_t h2[8], w2[16];
            first_block<Sha512>(seed, h2, w2);
            compress<Sha512>(h2, w2);
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                wide[i] = h2[i];
        }
    }

    static GABION_FN Key key(const uint8_t *, const uint8_t *context) {
        Key key;
        const uint32_t *narrow = reinterpret_cast<const uint32_t *>(context);
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            key.state.of[i] = narrow[i];
        key.wide = reinterpret_cast<const uint64_t *>(context + 32);
        return key;
    }

    static GABION_FN Value f(const Key &key, const SlhAddress &address, const Value &m) {
        return narrow(key, address, m.word);
    }

    static GABION_FN Value h(const Key &key, const SlhAddress &address, const Value &left, const Value &right) {
        uint32_t m[2 * WORDS];
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++) {
            m[i] = left.word[i];
            m[WORDS + i] = right.word[i];
        }
        if constexpr (!IS_WIDE) {
            return narrow(key, address, m);
        } else {
            uint32_t u[32];
            uint64_t state[8], w[16];
            block(u, address, m, Sha512::BLOCK_BYTES);
#pragma unroll
            for (unsigned i = 0; i < 16; i++)
                w[i] = static_cast<uint64_t>(u[2 * i]) << 32 | u[2 * i + 1];
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                state[i] = key.wide[i];
            sha512_block(state, w);
            return value(state);
        }
    }

    // T_l of `count` values in memory. The address, whose last six bytes are zero here, shifts them by half a word.
    static GABION_FN Value t(const Key &key, const SlhAddress &address, const uint8_t *values, uint32_t count) {
        using Hash = typename Wide<IS_WIDE>::Hash;
        using Word = typename Hash::Word;
        constexpr unsigned WIDTH = sizeof(Word), UNITS = WIDTH / 4, OF_BLOCK = 16 * UNITS;
        const uint32_t words = count * WORDS, length = 22 + 4 * words;
        const uint32_t blocks = (length + 2 * WIDTH) / Hash::BLOCK_BYTES + 1;
        Word state[8], w[16];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            if constexpr (IS_WIDE)
                state[i] = key.wide[i];
            else
                state[i] = key.state.of[i];
        }
        uint32_t head[5], before = 0;
        compressed(head, address);
#pragma unroll 1
        for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
            for (unsigned unit = 0; unit < OF_BLOCK; unit++) {
                uint32_t u = before << 16;
                if (unit < 5 && block == 0) {
                    u = head[unit];
                } else {
                    const uint32_t at = block * OF_BLOCK + unit - 5;
                    before = 0;
                    if (at <= words)
                        before = at < words ? reverse_bytes(load32(values + 4 * static_cast<size_t>(at))) : 0x80000000;
                    u |= before >> 16;
                }
                if (unit % UNITS == 0)
                    w[unit / UNITS] = 0;
                w[unit / UNITS] |= static_cast<Word>(u) << (32 * (UNITS - 1 - unit % UNITS));
            }
            if (block + 1 == blocks)
                w[15] |= (Hash::BLOCK_BYTES + length) * 8;
            compress<Hash>(state, w);
        }
        return value(state);
    }

    // PRF_msg, which is HMAC (FIPS 198-1) of opt_rand and M', and H_msg, which is MGF1 (RFC 8017, appendix B.2.1) of R,
    // PK.seed and a hash.
    static GABION_FN void hash_message(const SlhMessage &m) {
        using Hash = typename Wide<IS_WIDE>::Hash;
        constexpr uint32_t BLOCK_LENGTH = Hash::BLOCK_BYTES, LENGTH = BLOCK_LENGTH / 2;
        uint8_t *pad = m.room, *made = m.room + 128, *counter = made + LENGTH;
#pragma unroll 1
        for (unsigned phase = m.sk_prf == nullptr ? 2 : 0; phase < 5; phase++) {
            ThreeStrings message{m.r, BYTES, m.pk, BYTES, made, LENGTH + 4};
            uint8_t *out = m.digest + (phase == 4 ? LENGTH : 0);
            if (phase < 2) {
#pragma unroll 1
                for (unsigned i = 0; i < BLOCK_LENGTH; i++)
                    pad[i] = static_cast<uint8_t>((i < BYTES ? m.sk_prf[i] : 0) ^ (phase == 0 ? 0x36 : 0x5c));
                message = phase == 0 ? ThreeStrings{pad, BLOCK_LENGTH, m.opt_rand, BYTES, m.formatted, m.length}
                                     : ThreeStrings{pad, BLOCK_LENGTH, made, LENGTH, made, 0};
                out = made;
            } else if (phase == 2) {
                message = ThreeStrings{m.r, BYTES, m.pk, 2 * BYTES, m.formatted, m.length};
                out = made;
            } else {
                // 64 bytes are enough of a mask: m is 49 at most. SHA-512 makes them at once.
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    counter[i] = i == 3 && phase == 4 ? 1 : 0;
                if (phase == 4 && IS_WIDE)
                    return;
            }
            typename Hash::Word h[8];
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                h[i] = Hash::h(i);
            sha2_of_strings<Hash>(h, message);
            if (phase == 1) {
                store(m.r, value(h));
                GABION_DECLASSIFY(m.r, BYTES); // R is the signature's first part (Algorithm 19, line 4).
            }
            if constexpr (IS_WIDE) {
#pragma unroll
                for (unsigned i = 0; i < 8; i++)
                    store64(out + 8 * i, reverse_bytes_of_both(static_cast<uint32_t>(h[i] >> 32), static_cast<uint32_t>(h[i])));
            } else {
#pragma unroll
                for (unsigned i = 0; i < 8; i += 2)
                    store64(out + 4 * i, reverse_bytes_of_both(h[i], h[i + 1]));
            }
        }
    }

  private:
    template <bool WIDE, class = void> struct Wide {
        using Hash = Sha512;
    };
    template <class T> struct Wide<false, T> {
        using Hash = Sha256;
    };

    // PK.seed and zeros, and the state before that block.
    template <class Hash>
    static GABION_FN void first_block(const Value &seed, typename Hash::Word (&h)[8], typename Hash::Word (&w)[16]) {
        using Word = typename Hash::Word;
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            w[i] = 0;
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++) {
            if constexpr (sizeof(Word) == 8)
                w[i / 2] |= static_cast<Word>(seed.word[i]) << (i % 2 == 0 ? 32 : 0);
            else
                w[i] = seed.word[i];
        }
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            h[i] = Hash::h(i);
    }

    // The first 20 bytes of the compressed address ADRSc; the other two are the low half of `hash`.
    static GABION_FN void compressed(uint32_t (&u)[5], const SlhAddress &address) {
        const uint32_t high = static_cast<uint32_t>(address.tree >> 32), low = static_cast<uint32_t>(address.tree);
        u[0] = address.layer << 24 | high >> 8;
        u[1] = high << 24 | low >> 8;
        u[2] = low << 24 | address.type << 16 | address.key_pair >> 16;
        u[3] = address.key_pair << 16 | address.chain >> 16;
        u[4] = address.chain << 16 | address.hash >> 16;
    }

    // A block of address and message, with its padding, behind `before` bytes.
    template <unsigned ALL, unsigned COUNT>
    static GABION_FN void block(uint32_t (&u)[ALL], const SlhAddress &address, const uint32_t (&m)[COUNT], uint32_t before) {
        static_assert(4 * ALL >= 22 + 4 * COUNT + 1 + ALL / 2, "one block");
        uint32_t head[5];
        compressed(head, address);
#pragma unroll
        for (unsigned i = 0; i < ALL; i++)
            u[i] = i < 5 ? head[i] : 0;
        u[5] = address.hash << 16 | m[0] >> 16;
#pragma unroll
        for (unsigned i = 1; i < COUNT; i++)
            u[5 + i] = m[i - 1] << 16 | m[i] >> 16;
        u[5 + COUNT] = m[COUNT - 1] << 16 | 0x8000;
        u[ALL - 1] = (before + 22 + 4 * COUNT) * 8;
    }

    template <unsigned COUNT>
    static GABION_FN Value narrow(const Key &key, const SlhAddress &address, const uint32_t (&m)[COUNT]) {
        uint32_t w[16];
        block(w, address, m, Sha256::BLOCK_BYTES);
        Sha256State s = key.state;
        sha256_block(s, w);
        return value(s.of);
    }

    static GABION_FN Value value(const uint32_t (&state)[8]) {
        Value value;
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            value.word[i] = state[i];
        return value;
    }
    static GABION_FN Value value(const uint64_t (&state)[8]) {
        Value value;
#pragma unroll
        for (unsigned i = 0; i < WORDS; i++)
            value.word[i] = static_cast<uint32_t>(i % 2 == 0 ? state[i / 2] >> 32 : state[i / 2]);
        return value;
    }
};

} // namespace gabion
