"""Videos of 64 x 48 pixels and sounds, a few frames each, encoded by FFmpeg."""

from __future__ import annotations

import base64
import zlib


def _unpack(packed: str) -> bytes:
    return zlib.decompress(base64.b85decode(packed))


_PACKED = {
    "mp4": (
        "c-"
        "oCsO^6&t6t2m{MM97q7WA+}xkeG(nd$DCjB%hL%Nm@60TB$C2yJy$^>i~`UA0v;e|w7J!J{V+QGy3AYA|^66fh_r^ybAZdN2q<2_"
        "%S@T+H~YXV&ekMl8DPy?XC`@74S18H5l{>`Y}w3WN?JN8t^~nEFC>e1y=$iRK)1w*?~>=!Yv0&F3Hdbo#feH+TDAyti>3?>>3^&N"
        "S$Da064RIrh6JfbBOy)H?I>=@%Ovym@vDbc|C_Y)LiCd17(kdF@8v1<pFPR`pt~$z;+TXN=376iulIE$6qHT9Jc|R5p`^>0wG@LP"
        "H;Go`h}8c$`Z*4E>(h^Drq$J~KS@rtO|L_5C&$JWTl%n^6qhb6A-"
        "fKw*zG3;m`CAlR_Trkq92qYsEklVZR_zl&+Ar63VNeQY()^UMHua(a?c3k=;Bp$AtWY)2M64Ezn>#|beuQf8PbXR&awts<EuhTE_"
        "aV4G?{I7hjZLz2QF+LxI;qkLcB;X;=&XeNkt_s9y%bxyzt<Z(XIWEN2=6tQroP$H{IR)7mI)Wq2&nh0*7SaGCgz-KHBfG3P7mqi@"
        "K8F7(Vrg@pyglB`)#=uF%i)bJfXcs~S&>^3J?=U#wE!jw91st)Vyx??X!;Xi`=&q!in-"
        "t)hMt`U4^qPiLCs@Q#SC<wX!l2#s@U}}P^qO5@m2+HDG7Y=W17j>#VFzalngjy@Jp^B58~X3Mi7vp*uJd=^My>h1AJ6}>VXl4h)z"
        "ja6|LK(<9=Uw=%A4=LZ|&AwH*bK|(anqN^k@9hv-"
        "5ksSKOr6E^W?^%vV20sD4IBIR;rS#wkPht@^L9O;HWGXMff1w>o$}h5mCLf@cEd8Up{i9hNcc|Ke@>59I%e>o%`E9_P#&pldugwt"
        "@h^hnLve9l<gJ3>NHQ?tv>4diCq_&`4RX_cZRSty-RSUvZxlEa%Rqb`koR0JAz4rPJy)kF$ktjlr-"
        "~E_HOIbG+bd=ZuYW;6F3gu!_wk_fz$NQn<uD)CbyspvA%U*nAFq2fS|87&<b)fgT+Iy}bLv&N0^#x7G3Q>#x00Lo4a6U%p%a^3S_"
        ">9dZ@scv;eGy*+QnmgU}yT`xNgwva_t?%rqUzHNOWJG|7dENO{d11vp&UD_iIx}EB*0_Izw$6PfRajC3e-"
        "B83MW?j3_30_jSo~X7K#z7OM@@knH*<ya4`q)b6@NxKaAbSOViHwtO(DdQ)g1-R4V{l;"
    ),
    "mov": (
        "c-muNU=T?wsVpcgQBYuDU}AvK3>@W|DXBpEL~crA2?GP;W(EOvAhk^(A+Y0i!X_TUZTFAeu9wdJ&A_l=BD%-"
        "{3=xF>2Zf!|X!<XriyXiZf$JAcxY#{AVV9g6Na9cK_V)}73n!wB9K;Y|=E%*@F9Z4~C$}skg#iUHzW@>y42%pQgaC}Fs?hlk40r("
        "(5EYjcC1wNJF(uhxJDIVVR)L|D7<)m40hp_jno?2>q-9cbic64mR3P*+zRpd_Oaw9%a#PU#ZUn?^4E6uP9NmnRoFWh-HzTL03=;o"
        "vz!L@($oELhOUX$EDq@_Lo0*pe6c;JW1sjU&OdXg(DL{iti*gi@4dQl5EJ=i$!=RD^F-"
        "In)C^Zeq13XZDplH!5E=kG(vX2#)6sI7m*_K;iQidE%Zf?E-"
        ";IIc_2Vf9+0GS>*0u~cU{09X@LTYhJF*so~G&J}FwXpzcM+HH6fH5$z0!8$JCT;+^ZfmD7#BfFhh9kWl3}=~G*hHLx+)X}-"
        "WyxkndPWv{h6YA#Ks}5gr%4o-fTIlNCT56>8DxOIOGXlh%7JMSpj;JF3SfqaCFdilR{>(h(v%WVR7<WbE-"
        "zx>4Lt&MLK@HshDIPK004f+x<L"
    ),
    "webm": (
        "c-"
        "oV4y}x+AQ(GgW({~{L)X3uWxsk)EsiizMDc7mJk;$pGkx3%BA)S!{1enAGeP@^K^4;AXyt+lyb7flan#P3?o><7bY#{H3@9rKTPb"
        "lPYdhnViMrjCFCU`ecvWbb|4a6LVNCsK~kgGOnUEkQu@8say(Cd>}mS$$8X9z?FM&XXAe3#A+hd78fkn{JggSyW2dLv`;(GHh8%D"
        "EqvtpesWGAM1G(_EUD($UD!)*2Qc7GTlb$f*3dxrHeyis3=qhDL{7jRqh;-"
        "zY9#kbIya{lqNS#qF+s&i*d0K`!m6wiXv}N<Pq?j4(g_#6s7_9WJ3kjv=1@elG2k4GgTn2&lmT0vP0-"
        "x0O0HJ#S=Ke6W#$p&@{oVJ@SV1A_qrgF8oSYe#EK2NM%h=_=+QOza$2(`WXZUt;+8)9n2JzTA&z_gQZLQ=I?zjriTB-"
        "y7mzCoG=b$e_Ux$i%=Zu!cc`x5sl)&F%>zLO*97Z8*!Ycy1#@09=wm$@cpfhLy7>72b?yxLUf40Th!HclU2@WZ2#XOfesu7%M(BG"
        "6Mj)61tT"
    ),
    "mkv": (
        "c-"
        "oV4y}x*|Q(GgW({~{L)X3uWxsk)EsUtVBq$s~QJJG2fDAd}>BoW+@&d2})Oi_Zqvr7)_Z+Y;%N7{FHckt>KQO}iW!D|{9LU>{!>#"
        "~8okG{KmfIOj)!|B0mnizc{T$$kAK*=U1yEhQi7=jt74?ylYy}#vERI-`Y^^MK^P7b~ey*`O$X=X-xhCpOs6z+)1FJ3ZXsa}KQ%-"
        "?#s{_I>ozRu%Z?$X)e5C<_2<fH5RTQ*k|o?HiYw#W5G#^R$LEV9=bRUR*TKBtjEY3rQk(!7+8MuxW5u=ub5i{?f~<;Tq}Oi57;54"
        "tuqI_zpR2-"
        "(!g68f%@0p@uo1_n_0+}q#6>R7$FxOhSGfrj)Gvs@RqyZSl%ySN6qw4=GRcvJF$?qr0;=_eMtF79v%4RQ?e^!IaVpKM@Y1x7#(1`"
        "xm?@4T(lp<{oGW?22p=Zy@D4>mF|Gz2g+%w^PaU@%}{aOY@k?PzW3U}9n_UB&!^iJjwW`pkawOAP;hnw|gOm;3STKFjTYiu3=z5x"
        "?8?dqe!|gvGNP88jFInHX3F)-Xu$_INI;**!r-=;zF%4QCk^&uwG~fJ-"
        "tc*?#}RuyWR<!kf_yS4(#>fKtHp{VkbKAF1x{-`vQsy$hJ~J~lCK_|V7+0PhdqR{"
    ),
    "avi": (
        "c-"
        "jl{baOi<&cNUp=BeQ0865IPkbxm1r6?z{EHlG`fq}tc4g(wra56A3L)nZF5e5e!X~2L9KxR!5U|=XNDarw2uvul9DaCHS0Vc@mK;"
        "}q7*&ws?f%rcVz~mi(rUUh-"
        "X#m+8U_Qh?Mg|E6uvsdYc6){Tc}oE8W`Xhz3{sLAM!_f;1*2dTjDk@x3P!;w7zLwX6pVsVFrolxe1L_KfgwL7HwTC^evII-"
        "0FBc~0clS^H-FDyw-"
        "7#%SYlb4nUS6$5E&SOL+c0gXsQ_nqhO?#5IMloGB>|06Eu>V4;E$I02E@}+9?bf!evxoIMUm}aF&UMO~e_<-"
        "2^N{l7VH2kp;L6VPM?MAixf!wh1HzcHB<b#3Q)v{;}Kj(z(AG7#2)K7de0~LIryt6n09Z*?SRP<N&$|<@O3DT<o5muuIMjWZ<9N?"
        "e7^F7EVMLIfyQjnNnd08s!GrFTem9$<9aO*P!vgK=}acCaa+"
    ),
    "3gp": (
        "c-muNV30{GsVp!~FEC+XU}6B#nZ^0JKy1Xoz`&7Kl$r{pPvoW~mM}0dZe|c*2U6Pv5&}DJCv4&o+;;!i?Rx3l-"
        "wX^3CZdZRzz{*`e^A&dji&!1y2t?x5x9QAgp1v?6L!hDfh7LqZhz0fuy7)}$UzJdrro*u`DH-"
        "=<m8rRq%fcW<`+Psf`O3%gb;ucRTVnlfdMaI0wVX4qQq<<JEkNXY$r1o(<(4@5@RojFaUE^Qd3HbfwW9&PH_p6jtYcc#{Ib|nTbG"
        "#LT(DW-$7B$#t?c0%+bwA$ti-"
        "#lx3!*BC8Ao^7B0s^HOqBL24MYax?SNfDDncT(F_Y&QwW($jPJ>rKTY{il?+FM*+fS)G97X$^o*E6_*sJAgS4wTVPU#BPc)~H(>A"
        "p(jGWfpaY5j|AAyeYH><2II<fW8vKFUSb(&nf*?E)7#LWABKklRH-KEXwNn^kIHLl?k=_o5vrH^(BF;eWCZEKzWHTc@BMUu410yz"
        "|9!4gREyX3^Xn?ti8Jq%uAprDUGLkq{4or&x<*JZkl^G(IoR6el2LMu`sR9"
    ),
    "m4a": (
        "c-oZ{%TB^TaF&M{qXrX<#9)F6Bp!rFLx@MbdC-%>!FXBN7Am{6=`JLC>XBdJ8@&1t-"
        "n^Ok7dYM0u%Iz<veS9)%<N1D07{N}_HUb4Wq=e!)Rmq<v;bh+32Yl_O)#oHQgB13{gzd?F6)g83sM*DeNrsvOaw^hgy&815*O1Ug"
        "EdHh;in4(qO$_B?zJhm;ZI26X{dmXkbhJooiqJQw63Wm|Ib^onUY9LHkZn{(E-RT?~=J-E=8s+*yh_`Lx2Kw-"
        "n38~G9Dxr=}pF_=N-!InvNN_BOh`v+_8g9UW&D#6&CADEU+D;pxsHp%P~)iQuR3UPf|%{_&f-"
        "|Nq;<>Kt3rIp=C=Z_1MBNtfDc4^r(HPJ@;k+JMUT4WDjQDPuN0^;3xny>NX{jv${Q4C05Wk^h=wjXJ~sdUKZ)2G?@)7NY(d@80Uz"
        "`a^SN_2t3Z?-vP*Cp)>XdKCCQe#@>V}s{3H8qz|X&P;ig|^?hy*rsl?zug;Yhm2rYwL6ZjJZaBCb4J+D>Z~2sKr2"
    ),
    "sound.mp4": (
        "c-oZ{%SyvQa5imKM5RK-"
        "q7^E%;GvZ^Nb%T<;K7@;2l0}0lQwiW3E6Ey50Ybl#cvRA{)0Dff`3tGlZI}q2o5_t&)u1w*#UrxD<48n1RTHsMG;LNUbF#V%Z(fd"
        "X_He+ei(3LO$QzG+`K$*w@ffv-91vSZt4h-JLW+!#Y2owM-)~d_k~*@2&lCLvg)-"
        "ici~Ska9zpB8Y6!%$4SiGFSqq|9r=IUnnR^PT5*_=+KC=OesPw(a_U*gR5@LL`%4T^g5FyqG)I(0nMDK>U-"
        "!I4nO<8yWsdS8BkuVwGDX2xF0Ij2U!jrXY6<O3B34a#(h$;S$Ug}wsOIBihpivaCQ!^$Md&z!ill9E9M{p9M|#*jNIZ9E0Nd{c)D"
        "-q-{ZH6Hj$kXGWXmWm&%y_}vXDvXvS@{*WSBW-"
        "HPG}6TSCv!_Ncv9=~d|b8kU3{1lk=9#3L~bsS=`qvGj`ona`7m_ArE{MUQAts8lt%<BrT~bE-"
        "EAn;ThS$n<74z4SNKpJkxZIKfG=vZCU=xHvCuQ_agaRyuI5"
    ),
    "mp3": (
        "c-r%HF=k-^0p*b3U{@f`&%nU!lUSB!W~65bL<U9-"
        "2=M=R$N>g);F*_}57EcK%D}+Vzz~WF8nA#>Sin^*;6D}svKQn?49BRjI6xRI4f-j6AEL<u-G79E`2Yjs5+Fx`fx)B!sL;pJ$I;i-"
        "80b}l&_NDB?hkE7bAM>)kaGVj=3(dlAp?fG`vJK4h&c"
    ),
    "ogg": (
        "c-r$%PY-5bVt|66wMzUTy6aZQNk(D+g3@A-)Wj4<MhnJ<-"
        "Cza&Amt3m${B%l*)6B5jAkI^A&Ke5yg(73#IiIqBRxYPGB5%u5e4GZyyX0p)FN9HNwA457J>*9L9WsH(Yb?_83ca(|A&kKGf*&R"
    ),
    "weba": (
        "c-oV4y}x+AQ(GgW({~{L)X3uWxsk)EsiizMDc7kT$Zc(8k_c`{XJh~Y#;=0DvrBgQ?(Pm=-"
        "6HC_GA(#b<3b2eEM#3akaxp(cMp&!6mmE{cuf<d6ND=hygM7jz5fPc4nrgZtpLbXo3yTPZ02`z@NMYzNi0h<Gtx5zA_JpvM^wH`X"
        "NN<$16Ui#`A^qDT^Dn`k+Jw_#}e+K^<Bl9u5%h0l(x=kF3n5nXk=(>bBy;72n`Nf)ts!iAZ&LF%aJV%&5cYCC(dtV+}h#ryZ~%OQ"
        "c9yh@}kN91*OFvsfj6!j24UyyTLM`pt(_8yde2NL;8tXu8Z4U{ha+>T!UQNQ5{!YyeauWcQV2m=_eMtF79v%4RQ?e^!IaVpKM@Y1"
        "x9)Xmc|BPz##9ut#tSEMux@hjSLJ8KmPv%F+^buO&G%##8@zCA&?o!0A$W?<SAX$Tr-"
        "y&6j2j*_it`w*xm(95FeWu=YMEq1^`_+w3q"
    ),
    "flac": (
        "c-rmCF$#hJ6vpu{h!7+QAzI7H7Ac3eByjZ-k~$hRw0DcnP!L2*&<#37;0@etv$uAH;Q!-"
        "$yvKX5OtVCi@5!^~THJ>kX(VUfPB!P;<#dm)vv=+HrEq9JX?7@AQMj}$qMj|rRz<bl<;8yeb3AG)00000000000002+|GLl1QDDR"
        "1`32e<8Gi"
    ),
    "wav": (
        "c-"
        "rmEF$%&!6olc42awdM_5?vw*r&*Yg(ZRsre2Wk(k<HNUS7_34dMUh6*J9yL^BK0Ha@4a*U(C8Jjd6|r_o8RQe4)~XPoUG7hBKXQ+"
        "}7*&|m#7gI>92`4<2H00000000000Pz2Qpx+L{"
    ),
    "aac": ("c-s5_(Z_*#{-1kH3_giv$!11+MizR821X1_1`d4xfpU!Xe;6ec*a<QL!_^t0"),
}

HEIC = _unpack(
    "c-"
    "muNV30{GsVvAy%}izhg51nBLl8SRGck>UfpK4MYDppk1Sn>t<P<^K3<a6VB@Af5Br_);Y>0~k0}}%yh{gB_LIc4ypcoJ^?SP9I0k"
    "K79W?mYY2a**9a#F#{fNC<zk_{P<1Q|g}Tq`oc%J~X1OL7^YDjEJ}78Df#>ART)$@xIK45-"
    "(ckr^a30jx;w1H+%cKYlPU@G~a>bx1fc@-"
    "Y7Y4^qGkQo#&Da=Vxu5`mIhPK=CbG7A(MS*N{vvTWxLjtm0@pb#^NU{Fi~Dra+HJXn076KIKWa(+%xUUE(aP?VQ}tpO+`l384k3i"
    "Yl76l)~sBo;u~Ajca(X>cI?|Ns93G%y4TGAlAcg3KHo96(AUvmh517mN&ytc^^}tSvycRAy0X8dRJwIi)xm9QZ&J83l4v5<#(aNr"
    "Q2{WW)R5c_)s)3X@@7lr4K@f7<Mw7VBFlKYF)&tHh_(KPJE7u6>{BaAI<)^b`go8`b%%IRbm5rp$h99?Sf1jYN&;>umuA4`)=0z4"
    "U6(`FGY|mUsToEsX^+@3RWBXWbN+l#xC1ce3O5wJRh(t*Nh?qTd-"
    "Ln^So{twx$Tq=@&#PM*oBn_>=%e)66XJ12FTR+)M2riZbD!h2^4Kl$UFEp@J?{P&BkCTfvRE4~>VK7aYgvX{OrQ_8|ySx&z_J-"
    "uM_PrfI-Q@d*xPPo45{Oou!o6n%IWrL&zUtb0-AdiEAk&z!9ZhW9H0R@I*K|xNcLa?iIkZXuJ0|2O4!p{"
)
"""An image of 64 x 48 pixels, with SECRET7 in a tag of a camera."""

MEDIA = {name: _unpack(packed) for name, packed in _PACKED.items()}
"""Content of the files, by the end of their names."""
