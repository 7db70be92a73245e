#define FULL 0xffffffff
/* softmax of rows */
__global__ void softmax( const float* x , float* y , int rows , int columns ) {
  __shared__ float maxima[4][32] , sums[4][32] ;
  int w = threadIdx.y , t = threadIdx.x ; int row = blockIdx.x*blockDim.y+w ;
  if( row>=rows ) { return ; }
  const float* a = & x[ row*columns ] ; float best = -INFINITY ;
  for( int p = t ; p<columns ; p += 32 ) { best = a[p]>best ? a[p] : best ; } // the maximum
  maxima[w][t] = best ; __syncwarp( ) ;
  for( int q = 0 ; q<32 ; q++ ) { best = maxima[w][q]>best ? maxima[w][q] : best ; }
  float acc = 0 ; for( int p = t ; p<columns ; p += 32 ) { acc = acc+expf( a[p]-best ) ; }
  sums[w][t] = acc ; __syncwarp( ) ; acc = 0 ;
  for( int q = 0 ; q<32 ; q++ ) { acc = acc+sums[w][q] ; }
  for( int p = t ; p<columns ; p += 32 ) { y[ row*columns+p ] = expf( a[p]-best )/acc ; }
}
